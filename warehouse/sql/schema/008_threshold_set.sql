-- Thousands of runs are judged by the same thresholds. Where those come from is
-- asked of one run for each set of them, not of every run.

ALTER TABLE run ADD COLUMN threshold_set VARCHAR; -- hash of all specs of the run; NULL: not known, the run stands for itself

UPDATE run SET threshold_set = s.digest
FROM (SELECT run_id, md5(string_agg(concat_ws(chr(30), scope, target, metric, kind, coalesce(value::VARCHAR, 'NULL'), coalesce(tolerance_pct::VARCHAR, 'NULL'), coalesce(reference, 'NULL')),
             chr(31) ORDER BY ordinal)) AS digest
      FROM threshold GROUP BY run_id) s
WHERE s.run_id = run.run_id;
