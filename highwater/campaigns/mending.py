"""What a resumed campaign does again: everything that a reader of its folder refuses."""

from collections.abc import Callable, Iterator
from functools import partial
from uuid import uuid4

import msgspec

from highwater.campaigns.folder import CampaignFolder
from highwater.campaigns.records import CampaignRecords, Unusable, records_for

_UNUSABLE: msgspec.msgpack.Decoder[list[Unusable]] = msgspec.msgpack.Decoder(list[Unusable])

Workers = Callable[[int, Callable[[int], bytes]], Iterator[bytes]]  # `pipeline.tasks.results_on_spark` with its session


def mend(folder: CampaignFolder, workers: Workers | None = None) -> list[str]:
    """Forget what does not count, so that it is done again; a sentence for each.

    These are the rows of `CampaignFolder.mend_rows`, and the runs whose records no dataset takes in; with a run of a block all
    of the block. The workers of Spark read the records, if there are any. Call it while nobody else writes.
    """
    mended = folder.mend_rows()
    records = CampaignRecords(folder.place)
    if workers is None or folder.asked.order.generation:
        unusable = list(records.unusable(records.keys))
    else:
        of_unit = partial(_unusable_of_unit, records.location, str(uuid4()))
        results = workers(-(-records.wanted // records.unit), of_unit)
        unusable = [unusable_record for result in results for unusable_record in _UNUSABLE.decode(result)]
    records.forget(unusable_record.key for unusable_record in unusable)
    return [*mended, *(f"{unusable_record.words}; done again" for unusable_record in unusable)]


def _unusable_of_unit(location: str, work: str, unit: int) -> bytes:
    records = records_for(location, work)
    return msgspec.msgpack.encode(list(records.unusable(records.keys_of_unit(unit))))
