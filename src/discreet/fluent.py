"""Implementations of the methods that a lower room declares (`util/attached.py`)."""

from discreet.util.attached import attach

attach(
    {
        "Network._repr_html_": "discreet.display.network_svg:network_html",
        "Network.plot": "discreet.display.network_plot:plot_network",
        "Network.read": "discreet.formats.network_files:read_structure",
        "Network.summary": "discreet.display.network_svg:network_summary",
        "Network.to_svg": "discreet.display.network_svg:network_svg",
        "Network.to_text": "discreet.display.network_svg:network_text",
        "Network.write": "discreet.formats.network_files:write_structure",
        "PosteriorDraws.answer": "discreet.queries.query:answer",
        "PosteriorDraws.load": "discreet.posterior.stored:load_draws",
        "PosteriorDraws.marginals": "discreet.queries.query:marginals",
        "PosteriorDraws.save": "discreet.posterior.stored:save_draws",
        "Release.posterior": "discreet.posterior.read:read",
        "Result._repr_html_": "discreet.display.renderers:html_of",
        "Result.plot": "discreet.display.renderers:plot_intervals",
        "Result.summary": "discreet.display.renderers:text_of",
        "Tables.read": "discreet.formats.network_files:read_tables",
        "Tables.text": "discreet.formats.network_files:tables_text",
        "Tables.to_frame": "discreet.display.renderers:frame_of",
        "Tables.write": "discreet.formats.network_files:write_tables",
        "Tabular.to_frame": "discreet.display.renderers:frame_of",
    }
)
