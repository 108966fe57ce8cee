"""The page of a history that another system recorded, from its view model (`reports.foreign`)."""

from reports.cycle import graph_svg
from reports.foreign import ForeignPage
from reports.lanes import chart_svg
from reports.templating import environment, static, styles


def render_foreign(page: ForeignPage) -> str:
    """Render the page of a history that another system recorded."""
    return (
        environment()
        .get_template("foreign.html.j2")
        .render(
            page=page,
            css=styles() + static("foreign.css"),
            script=static("foreign.js"),
            draw_chart=chart_svg,
            draw_graph=graph_svg,
        )
    )
