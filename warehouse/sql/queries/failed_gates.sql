-- failed_gates: gates of a run that do not hold, the worst first; --param run=RUN
SELECT cell_id, metric, bound, got_text AS got, margin_pct, reason, file, line
FROM gates WHERE run_id = $run AND state IN ('fail', 'invalid') ORDER BY margin_pct, cell_ordinal, metric_ordinal;
