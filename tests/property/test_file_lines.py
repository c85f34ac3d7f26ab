"""The lines that arrow writes of a checkpoint's files, against those that Python writes of the same actions."""

from hypothesis import given, settings
from hypothesis import strategies as st

from core.api.lines import Layout, delta_files, parquet_files
from core.delta.log.checkpoint import Checkpoint
from core.delta.snapshot import AddBatch, FileBatch
from core.sharing.answers import ADD_FIELDS, PARQUET_FIELDS
from tests.unit.delta.builder import MODERN_PROTOCOL, Action, add, checkpoint, metadata, remove, vector

# Of ASCII more often than not, since lines with other characters are never arrow's.
TEXTS = st.text(st.characters(max_codepoint=0x7F)) | st.text(st.characters(exclude_categories=["Cs"]))
NAMES = TEXTS.filter(bool)
PARTITIONS = st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3)
LONGS = st.integers(-(2**63), 2**63 - 1)
MORE = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.dictionaries(TEXTS, st.none() | TEXTS, max_size=2),
        "baseRowId": LONGS,
        "defaultRowCommitVersion": LONGS,
        "clusteringProvider": TEXTS,
    },
)
FILES = st.fixed_dictionaries(
    {
        "partitionValues": PARTITIONS,
        "size": st.integers(0, 2**63 - 1),
        "modificationTime": LONGS,
        "dataChange": st.booleans(),
    }
)


@st.composite
def checkpoints(draw: st.DrawFn) -> list[Action]:
    """Their actions. Some have a field in all files, some in none and some in a few."""
    everywhere = draw(MORE) | draw(st.fixed_dictionaries({}, optional={"stats": TEXTS}))
    rows = [MODERN_PROTOCOL, metadata()]
    for path in draw(st.lists(NAMES, unique=True, min_size=1, max_size=5)):
        rows.append(add(path, **draw(FILES) | everywhere))
        if draw(st.integers(0, 9)) == 0:
            rows.append(add(path, deletionVector=vector("one"), **draw(FILES)))
        if draw(st.booleans()):
            rows.append(remove(f"{path}-removed"))
    if draw(st.integers(0, 4)) == 0:
        rows.append(add("without", partitionValues={}))
    return rows


def lines(files: FileBatch) -> tuple[bytes, bytes]:
    numbers = [str(number) for number in range(len(files.paths))]

    def plain(fields: Layout) -> Layout:
        return parquet_files("file", numbers, numbers, fields, 99)

    def wrapped(fields: Layout) -> Layout:
        return delta_files("add", numbers, numbers, None, fields, 99, version=2, timestamp=3)

    return b"".join(files.lines(PARQUET_FIELDS, plain)), b"".join(files.lines(ADD_FIELDS, wrapped))


@settings(deadline=None, max_examples=400)
@given(checkpoints(), st.data())
def test_whoever_writes_the_lines_they_are_the_same_bytes(actions: list[Action], data: st.DataObject) -> None:
    (batch,) = Checkpoint([checkpoint(*actions)]).batches()
    chosen = data.draw(st.lists(st.booleans(), min_size=len(batch.paths), max_size=len(batch.paths)))
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(batch.paths))] * 2)))
    for files in (batch, batch.only(chosen), batch.between(begin, end)):
        assert lines(files) == lines(AddBatch.of(files.adds()))
    assert list(batch.only(chosen).adds()) == list(AddBatch.of(batch.adds()).only(chosen).adds())
    assert list(batch.between(begin, end).adds()) == list(batch.adds())[begin:end]
