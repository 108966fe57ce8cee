"""The index page of a campaign while it runs, for others than the one who started it."""

import posixpath
from time import monotonic

from highwater.campaigns.folder import CampaignFolder
from highwater.campaigns.pages import INDEX, row_of
from reports.index import Banner
from reports.render import campaign_html

EVERY_S = 60.0
_SHARE = 20  # one part of so many of the driver's time goes into the page


class LivePage:
    """Writes the index page anew from time to time: the more rarely, the longer it takes. Its last version is that of the end."""

    def __init__(self, folder: CampaignFolder) -> None:
        self._folder = folder
        self._runs = 0
        self._due_s = monotonic() + EVERY_S

    def count(self, runs: int) -> None:
        """Count finished runs, and write the page if it is time."""
        self._runs += runs
        start_s = monotonic()
        folder, order = self._folder, self._folder.asked.order
        if start_s < self._due_s or order.generation:  # the plans of a guided campaign are no trials of its order
            return
        rows = (row_of(summary, folder.under) for summary in folder.finished())
        running = Banner(tone="unknown", word=f"running, {self._runs} of {order.runs}:")
        page = campaign_html(rows, title=order.title, repeat=order.command(), banner=running)
        folder.storage.write(posixpath.join(folder.under, INDEX), page.encode())
        self._due_s = monotonic() + max(EVERY_S, _SHARE * (monotonic() - start_s))
