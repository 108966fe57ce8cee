"""The harness: the only package that imports both the system under test and the checkers.

    exit_codes errors   exit codes of the commands and the exceptions behind them
    run_folder          temporary folders that `highwater clean` finds when their process was killed
    plans/              everything a run needs, as data and as YAML
    rig/                what all backends share
    backends/           the simulator and real nodes, each performs a plan
    explore/            every schedule of a small world
    coverage/           which code of the protocol a run reaches
    foreign/            histories that another system recorded
    runs/               one run from a plan to its report, also as one of many
    shrink/             the smallest plan that fails in the same way
    campaigns/          many seeds, the regression corpus, `chaos`
    catalogue/          requirements of the source documents, known bugs and their mutants
    admin/              Kafka's administration tools: reassignment, description of topics
    serve/              the runs of a store as web pages
    cli/                the commands

Each folder imports those above it in this list, and none imports a folder below it.
"""

__version__ = "0.2.0"
