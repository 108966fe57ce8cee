"""The harness: everything that sees both the system under test and its judges.

    exit_codes errors   how a command ends
    plans/              what a run is made of, as data and as YAML
    rig/                what every backend performs a plan with
    backends/           where a plan is performed: the simulator, real nodes
    explore/            every schedule of a small world
    runs/               one run from a plan to a page; many on all cores
    campaigns/          many seeds, the corpus, the gate
    catalogue/          statements of the documents, known bugs and their mutants
    admin/              what an operator asks of a cluster
    cli/                the commands

Each folder imports those above it in this list, and none imports a folder below it.
"""
