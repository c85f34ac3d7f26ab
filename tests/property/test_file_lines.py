"""Arrow and orjson write the same lines for the files of a checkpoint."""

from hypothesis import given, settings
from hypothesis import strategies as st

from core.delta.log.batch import AddBatch, FileBatch
from core.delta.log.checkpoint import Checkpoint
from core.sharing.answers import delta_answer, parquet_answer
from core.sharing.answers.file_lines import delta_files, file_lines, parquet_files
from tests.examples import examples
from tests.unit.delta.builder import MODERN_PROTOCOL, Action, add, checkpoint, metadata, remove, vector

# Mostly ASCII, because orjson writes the lines with other characters.
TEXTS = st.text(st.characters(max_codepoint=0x7F)) | st.text(st.characters(exclude_categories=["Cs"]))
NAMES = TEXTS.filter(bool)
PARTITIONS = st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3)
LONGS = st.integers(-(2**63), 2**63 - 1)
OPTIONAL_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.dictionaries(TEXTS, st.none() | TEXTS, max_size=2),
        "baseRowId": LONGS,
        "defaultRowCommitVersion": LONGS,
        "clusteringProvider": TEXTS,
    },
)
REQUIRED_FIELDS = st.fixed_dictionaries(
    {
        "partitionValues": PARTITIONS,
        "size": st.integers(0, 2**63 - 1),
        "modificationTime": LONGS,
        "dataChange": st.booleans(),
    }
)


@st.composite
def checkpoints(draw: st.DrawFn) -> list[Action]:
    """Draws the actions of a checkpoint. All, some or none of the files have a given optional field."""
    optional = draw(OPTIONAL_FIELDS) | draw(st.fixed_dictionaries({}, optional={"stats": TEXTS}))
    rows = [MODERN_PROTOCOL, metadata()]
    for path in draw(st.lists(NAMES, unique=True, min_size=1, max_size=5)):
        rows.append(add(path, **draw(REQUIRED_FIELDS) | optional))
        if draw(st.integers(0, 9)) == 0:
            rows.append(add(path, deletionVector=vector("one"), **draw(REQUIRED_FIELDS)))
        if draw(st.booleans()):
            rows.append(remove(f"{path}-removed"))
    if draw(st.integers(0, 4)) == 0:
        rows.append(add("without", partitionValues={}))
    return rows


def lines(files: FileBatch) -> tuple[bytes, bytes]:
    numbers = [str(number) for number in range(files.num_files)]
    plain = parquet_files("file", numbers, numbers, files.add_fields(parquet_answer.FIELDS), 99)
    fields = files.add_fields(delta_answer.FIELDS)
    wrapped = delta_files("add", numbers, numbers, None, fields, 99, version=2, timestamp=3)
    return b"".join(file_lines(plain, files.num_files)), b"".join(file_lines(wrapped, files.num_files))


@settings(deadline=None, max_examples=examples(400))
@given(checkpoints(), st.data())
def test_arrow_and_orjson_write_the_same_bytes(actions: list[Action], data: st.DataObject) -> None:
    ((_, batch),) = Checkpoint([checkpoint(*actions)]).batches()
    chosen = data.draw(st.lists(st.booleans(), min_size=len(batch.paths), max_size=len(batch.paths)))
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(batch.paths))] * 2)))
    for files in (batch, batch.only(chosen), batch.between(begin, end)):
        assert lines(files) == lines(AddBatch.of(files.adds()))
    assert list(batch.only(chosen).adds()) == list(AddBatch.of(batch.adds()).only(chosen).adds())
    assert list(batch.between(begin, end).adds()) == list(batch.adds())[begin:end]
