-- repeats: whether two runs differ by more than their repeats do (Welch, q over all cells); --param before=RUN --param after=OTHER
SELECT cell_key, slot, metric, n, other_n, mean, other_mean, better_pct, p, q, state, reason
FROM repeat_test($after, $before) ORDER BY q NULLS LAST, cell_key, slot, metric_ordinal;
