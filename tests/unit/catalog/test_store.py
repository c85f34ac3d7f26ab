import pytest
from botocore.exceptions import ClientError

from core.catalog.items import Key, decode, encode
from core.catalog.store import BACK_OFF_SECONDS, CatalogStore, CatalogThrottledError, RetryableWriteError

TABLE = "catalog"


class BusyDynamoDb:
    """Processes only one key per BatchGetItem for the given number of calls."""

    def __init__(self, busy_calls: int) -> None:
        self.busy_calls = busy_calls
        self.requests = []

    def batch_get_item(self, RequestItems):  # noqa: N803
        request = RequestItems[TABLE]
        self.requests.append(request)
        keys = request["Keys"]
        served = keys[:1] if len(self.requests) <= self.busy_calls else keys
        left = keys[len(served) :]
        unprocessed = {TABLE: {**request, "Keys": left}} if left else {}
        return {"Responses": {TABLE: served}, "UnprocessedKeys": unprocessed}


def test_unprocessed_keys_are_retried_with_increasing_delay():
    pauses = []
    client = BusyDynamoDb(busy_calls=3)
    keys = [Key("pk", str(number)) for number in range(10)]
    assert set(CatalogStore(client, TABLE, sleep=pauses.append).get(keys)) == set(keys)
    assert pauses == list(BACK_OFF_SECONDS[:3])
    assert all(request["ConsistentRead"] for request in client.requests)


def test_keys_that_stay_unprocessed_raise_an_error():
    client = BusyDynamoDb(busy_calls=1000)
    with pytest.raises(CatalogThrottledError):
        CatalogStore(client, TABLE, sleep=lambda seconds: None).get([Key("pk", str(number)) for number in range(50)])


def test_no_call_has_more_than_a_hundred_keys():
    client = BusyDynamoDb(busy_calls=0)
    keys = [Key("pk", str(number)) for number in range(250)]
    assert len(CatalogStore(client, TABLE).get(keys)) == 250
    assert [len(request["Keys"]) for request in client.requests] == [100, 100, 50]


class CancellingDynamoDb:
    def __init__(self, *codes: str) -> None:
        self.codes = codes

    def transact_write_items(self, TransactItems):  # noqa: N803
        response = {
            "Error": {"Code": "TransactionCanceledException", "Message": "cancelled"},
            "CancellationReasons": [{"Code": code} for code in self.codes],
        }
        raise ClientError(response, "TransactWriteItems")


@pytest.mark.parametrize("code", ["ConditionalCheckFailed", "TransactionConflict", "ThrottlingError"])
def test_a_transaction_that_lost_a_race_can_be_retried(code):
    with pytest.raises(RetryableWriteError):
        CatalogStore(CancellingDynamoDb("None", code), TABLE).write([])


@pytest.mark.parametrize("codes", [("None", "ValidationError"), ("ConditionalCheckFailed", "ValidationError"), ()])
def test_an_invalid_transaction_is_not_retried(codes):
    with pytest.raises(ClientError):
        CatalogStore(CancellingDynamoDb(*codes), TABLE).write([])


def test_items_survive_encoding_and_decoding():
    item = {
        "text": "é",
        "empty": "",
        "yes": True,
        "no": False,
        "whole": 2**60,
        "part": 0.25,
        "bytes": b"\0\xff",
        "list": ["a", 1, {"deep": []}],
        "map": {"k": {"n": -1}},
    }
    assert decode(encode(item)) == item


def test_a_value_without_an_attribute_type_is_rejected():
    with pytest.raises(TypeError, match="set"):
        encode({"value": {1}})
