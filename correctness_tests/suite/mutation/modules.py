"""Which tests must kill the mutants of which module."""

from __future__ import annotations

MODULES: dict[str, tuple[str, ...]] = {
    "fixtures.gate.verdicts": ("test_gate_verdicts.py", "test_gate_planted_slips.py"),
    "fixtures.gate.statistics": ("test_gate_statistics.py", "test_gate_wild_launches.py", "test_gate_verdicts.py"),
    "fixtures.gate.noise": ("test_gate_noise.py", "test_gate_verdicts.py"),
    "fixtures.gate.night": ("test_night.py",),
    "fixtures.gate.holdings": ("test_holdings.py",),
    "fixtures.gate.time_limit": ("test_time_arithmetic.py",),
    "fixtures.gate.pairing": ("test_gate_pairing.py", "test_gate_comparisons.py"),
    "fixtures.gate.cases": ("test_gate_cases.py",),
    "fixtures.ledger.messages": ("test_bandwidth_arithmetic.py",),
    "fixtures.ledger.collectives": ("test_ledger_by_hand.py", "test_ledger.py"),
    "fixtures.accounts": ("test_accounts.py",),
    "fixtures.bandwidth": ("test_bandwidth_arithmetic.py",),
    "fixtures.ledger.resident": ("test_ledger_by_hand.py", "test_ledger.py"),
    "fixtures.ledger.shapes": ("test_ledger_by_hand.py", "test_ledger.py"),
    "fixtures.ledger.published": ("test_ledger_published.py",),
    "fixtures.ledger.bookkeeping": ("test_ledger_zero3.py",),
    "fixtures.ledger.zero3": ("test_ledger_by_hand.py", "test_ledger_zero3.py"),
    "fixtures.ledger.books": ("test_ledger_books.py",),
    "fixtures.ledger.activations": ("test_ledger_activations.py",),
    "fixtures.ledger.schedules": ("test_ledger_schedules.py", "test_ledger_schedule_fsdp2.py"),
    "fixtures.ledger.schedule_fsdp1": ("test_ledger_schedule_fsdp1.py",),
    "fixtures.ledger.schedule_fsdp2": ("test_ledger_schedule_fsdp2.py",),
    "fixtures.ledger.phases": ("test_ledger_phases.py",),
    "fixtures.ledger.alone": ("test_ledger_alone.py",),
    "fixtures.meters.nvml": ("test_meter_nvml.py",),
    "fixtures.meters.traffic": ("test_meter_traffic_labels.py",),
    "fixtures.meters.growth": ("test_meter_growth_named.py",),
    "fixtures.meters.telemetry": ("test_meter_devices.py", "test_meter_telemetry.py"),
    "fixtures.meters.clock": ("test_meter_clock.py",),
    "fixtures.meters.bandwidth": ("test_bandwidth_laps.py",),
    "fixtures.meters.storages": ("test_meter_storages.py",),
    "fixtures.meters.host": ("test_meter_host.py",),
    "fixtures.meters.collectives": ("test_meter_collectives_here.py", "test_meter_collectives.py"),
    "fixtures.gate.migration": ("test_baselines_migration.py",),
    "fixtures.measurements": ("test_measured_figures.py", "test_gate_comparisons.py"),
    "fixtures.gate.budget_verdicts": ("test_budget_verdicts.py", "test_budget_headlines.py", "test_budget_floors.py"),
    "fixtures.gate.entries": ("test_baseline_entries.py", "test_baselines_anchor.py"),
    "fixtures.gate.comparisons": ("test_gate_comparison_records.py", "test_gate_comparisons.py"),
    "fixtures.gate.strict_json": ("test_strict_json.py",),
    "fixtures.gate.sequential": ("test_gate_sequential.py",),
    "fixtures.gate.power": ("test_gate_power.py",),
    "fixtures.gate.patterns": ("test_budget_accepting.py",),
    "fixtures.gate.baselines": (
        "test_baselines_finding.py",
        "test_baselines_loading.py",
        "test_baselines_format.py",
        "test_baselines_writing.py",
        "test_baselines_shipped.py",
    ),
    "fixtures.gate.budgets": ("test_budget_names.py", "test_budget_verdicts.py"),
    "fixtures.gate.budget_files": (
        "test_budgets_writing.py",
        "test_budgets_loading.py",
        "test_budgets_shipped.py",
        "test_hostile_files.py",
    ),
    "fixtures.gate.shelves": ("test_shelves.py", "test_baselines_writing.py", "test_budgets_loading.py"),
    "fixtures.gate.store": ("test_store.py", "test_baselines_writing.py"),
    "fixtures.gate.upgrade": ("test_upgrade.py", "test_upgrade_budgets.py"),
    "fixtures.gate.budget_proposals": (
        "test_budget_proposals.py",
        "test_budget_floors.py",
        "test_budget_accepting.py",
    ),
    "fixtures.gate.networks": (
        "test_network_records.py",
        "test_accepted_network.py",
        "test_accepted_tables_are_kept.py",
    ),
    "fixtures.gate.proposals": (
        "test_proposal_records.py",
        "test_proposal_refusals.py",
        "test_baselines_proposals.py",
        "test_baselines_anchor.py",
    ),
}

LATER: dict[str, tuple[str, ...]] = {
    "fixtures.meters.timeline": ("test_recorded_computation.py", "test_recorded_timeline.py"),
    "fixtures.meters.step_log": ("test_step_log.py",),
    "fixtures.meters.memory": ("test_meter_memory.py",),
    "fixtures.meters.edges": ("test_meter_edges.py", "test_recorded_timeline.py"),
    "fixtures.meters.census": ("test_meter_census.py", "test_meter_census_named.py"),
}
"""Modules whose living mutants have not all been looked at: tried when they are asked for by name."""

ON_RANKS: dict[str, str] = {
    "fixtures.meters.controls": "a control sends between ranks. Broken meters and broken grounds are planted on real "
    "ranks (test_meter_controls.py), and every control runs in every launch",
    "fixtures.meters.lending": "what gloo's worker thread holds is seen on real ranks alone, where results and bytes "
    "are compared (test_meter_lending.py) and every phase is exact (perf_tests/test_phase_accounts_on_ranks.py)",
}
"""Modules that can't be tried in one process: why not, and what guards them instead."""
