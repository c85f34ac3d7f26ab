import threading

from core.catalog.cache import TtlCache


def test_an_entry_expires_after_its_ttl_however_often_it_is_used():
    cache = TtlCache(10)
    cache.put("key", "value", read_at=100.0, seconds=5.0)
    assert [cache.get("key", now) for now in (100.0, 102.0, 104.9, 105.0)] == ["value", "value", "value", None]


def test_an_entry_older_than_the_requested_age_is_not_returned():
    cache = TtlCache(10)
    cache.put("key", "value", read_at=100.0, seconds=5.0)
    assert [cache.get("key", now, max_age=2.0) for now in (100.0, 101.9, 102.0)] == ["value", "value", None]


def test_setting_the_clock_back_expires_an_entry():
    cache = TtlCache(10)
    cache.put("key", "value", read_at=100.0, seconds=5.0)
    assert cache.get("key", 99.0) is None


def test_a_ttl_of_zero_caches_nothing():
    cache = TtlCache(10)
    cache.put("key", "value", read_at=100.0, seconds=0)
    assert cache.get("key", 100.0) is None


def test_the_least_recently_used_entry_is_evicted():
    cache = TtlCache(2)
    cache.put("a", 1, read_at=0, seconds=9)
    cache.put("b", 2, read_at=0, seconds=9)
    cache.get("a", 1)
    cache.put("c", 3, read_at=0, seconds=9)
    assert [cache.get(key, 1) for key in "abc"] == [1, None, 3]


def test_the_cache_is_thread_safe():
    cache = TtlCache(8)
    failures = []

    def work(seed: int) -> None:
        try:
            for number in range(2000):
                key = (number * seed) % 16
                cache.put(key, key, read_at=number, seconds=1)
                assert cache.get(key, number) in (None, key)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
