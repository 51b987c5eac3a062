-- baselines: throughput, TTFT and TPOT of a run beside the previous run, the golden one, the median of ten and the best; --param run=RUN
SELECT m.cell_key, m.slot, m.metric, m.value, p.previous, p.better_pct AS previous_pct, g.golden, g.better_pct AS golden_pct,
       m.mid AS median_of_last, m.mid_runs, m.mid_pct, m.best, m.best_run, m.best_pct
FROM trend m
LEFT JOIN prev_run p ON p.run_id = m.run_id AND p.cell_key = m.cell_key AND p.slot = m.slot AND p.metric = m.metric
LEFT JOIN golden g ON g.run_id = m.run_id AND g.cell_key = m.cell_key AND g.slot = m.slot AND g.metric = m.metric
WHERE m.run_id = $run AND m.metric IN ('output_throughput', 'mean_ttft_ms', 'mean_tpot_ms') ORDER BY m.cell_key, m.slot, m.metric_ordinal;
