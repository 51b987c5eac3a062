-- tiers: the gates of one cell rolled up by family.
-- grain: run_id, cell_key, host, tier (cells with a usable result only)
-- reads: gates, run, sample
-- unit:  counts of gates
-- A needed tier (throughput, ttft, tpot, health) with specs of which none could
-- be evaluated fails: silence is not a pass.
CREATE OR REPLACE VIEW tiers AS
WITH tier_list AS (
    SELECT unnest(['throughput', 'ttft', 'tpot', 'itl', 'e2el', 'health', 'scaling', 'other', 'record']) AS tier,
           unnest([1, 2, 3, 4, 5, 6, 7, 8, 9]) AS ordinal
), measured AS (
    SELECT DISTINCT s.run_id, s.cell_key, s.host, r.enforce, r.nnodes, r.scaling_baseline
    FROM sample s JOIN run r ON r.run_id = s.run_id
    WHERE s.role = 'cell' AND s.usable AND s.cell_key IS NOT NULL
), counted AS (
    SELECT run_id, cell_key, host, tier,
           count(*) AS specs,
           count(*) FILTER (WHERE kind = 'info') AS info,
           count(*) FILTER (WHERE state = 'pass') AS pass,
           count(*) FILTER (WHERE state = 'fail') AS fail,
           count(*) FILTER (WHERE state = 'invalid') AS invalid,
           count(*) FILTER (WHERE state = 'skipped') AS skipped,
           count(*) FILTER (WHERE state = 'na') AS na,
           count(*) FILTER (WHERE would_fail) AS would_fail,
           count(*) FILTER (WHERE state = 'record') AS record,
           min(margin_pct) AS worst_margin_pct,
           first(metric ORDER BY margin_pct, metric_ordinal, metric) FILTER (WHERE margin_pct IS NOT NULL) AS worst_metric,
           string_agg(metric || ': ' || reason, '; ' ORDER BY metric_ordinal, metric) FILTER (WHERE state IN ('fail', 'invalid') OR would_fail) AS bad,
           string_agg(metric, ', ' ORDER BY metric_ordinal, metric) FILTER (WHERE state = 'skipped') AS absent,
           min(reason) FILTER (WHERE state = 'na') AS na_reason
    FROM gates
    GROUP BY run_id, cell_key, host, tier
), t AS (
    SELECT m.*, l.tier, l.ordinal, c.* EXCLUDE (run_id, cell_key, host, tier),
           coalesce(c.specs, 0) AS n,
           coalesce(c.specs, 0) - coalesce(c.info, 0) - coalesce(c.na, 0) AS assertable,
           coalesce(c.pass, 0) + coalesce(c.fail, 0) + coalesce(c.invalid, 0) AS evaluated
    FROM measured m
    CROSS JOIN tier_list l
    LEFT JOIN counted c ON c.run_id = m.run_id AND c.cell_key = m.cell_key AND c.host = m.host AND c.tier = l.tier
)
SELECT run_id, cell_key, host, tier, ordinal,
       CASE                                          -- first match wins; the order is the rule
           WHEN tier = 'record' THEN 'record'
           WHEN tier = 'scaling' AND (coalesce(nnodes, 1) <= 1 OR scaling_baseline IS NULL) THEN 'na'
           WHEN coalesce(fail, 0) + coalesce(invalid, 0) > 0 THEN 'fail' -- not enforced, only that no request completed
           WHEN NOT enforce THEN 'record'
           WHEN n = 0 AND tier IN ('throughput', 'ttft', 'tpot', 'health') THEN 'fail'
           WHEN n = 0 THEN 'na'
           WHEN evaluated > 0 THEN 'pass'
           WHEN assertable > 0 AND tier IN ('throughput', 'ttft', 'tpot', 'health') THEN 'fail'
           WHEN assertable > 0 THEN 'skipped'
           WHEN coalesce(na, 0) > 0 THEN 'na'
           ELSE 'record'
       END AS state,
       CASE
           WHEN tier = 'record' THEN NULL
           WHEN tier = 'scaling' AND coalesce(nnodes, 1) <= 1 THEN 'one node'
           WHEN tier = 'scaling' AND scaling_baseline IS NULL THEN 'no scaling baseline is set'
           WHEN coalesce(fail, 0) + coalesce(invalid, 0) > 0 THEN bad
           WHEN NOT enforce THEN CASE WHEN would_fail > 0 THEN 'would fail: ' || bad END
           WHEN n = 0 AND tier IN ('throughput', 'ttft', 'tpot', 'health') THEN 'no specs'
           WHEN n = 0 THEN 'no specs'
           WHEN evaluated > 0 THEN CASE WHEN skipped > 0 THEN evaluated || ' of ' || assertable || ' evaluated; not in artifact: ' || absent END
           WHEN assertable > 0 AND tier IN ('throughput', 'ttft', 'tpot', 'health') THEN 'nothing assertable in tier ' || tier || ': ' || absent || ' not in artifact'
           WHEN assertable > 0 THEN absent || ' not in artifact'
           WHEN na > 0 THEN na_reason
           ELSE 'recorded only'
       END AS reason,
       n::INTEGER AS specs,
       coalesce(pass, 0)::INTEGER AS pass, coalesce(fail, 0)::INTEGER AS fail, coalesce(invalid, 0)::INTEGER AS invalid,
       coalesce(skipped, 0)::INTEGER AS skipped, coalesce(na, 0)::INTEGER AS na, coalesce(info, 0)::INTEGER AS info,
       coalesce(would_fail, 0)::INTEGER AS would_fail,
       coalesce(record, 0)::INTEGER AS record,
       worst_margin_pct, worst_metric
FROM t
WHERE n > 0 OR tier <> 'other';
COMMENT ON VIEW tiers IS 'The gates of one cell by family; one row per run, measured cell, host and tier';
COMMENT ON COLUMN tiers.run_id IS 'run';
COMMENT ON COLUMN tiers.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN tiers.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN tiers.tier IS 'throughput, ttft, tpot, itl, e2el, health, scaling, other, record';
COMMENT ON COLUMN tiers.ordinal IS 'display order';
COMMENT ON COLUMN tiers.state IS 'pass, fail, skipped, na, record';
COMMENT ON COLUMN tiers.reason IS 'which gates failed and how, or why nothing was judged';
COMMENT ON COLUMN tiers.specs IS 'specs of the tier in this cell';
COMMENT ON COLUMN tiers.pass IS 'gates that hold';
COMMENT ON COLUMN tiers.fail IS 'gates that do not hold';
COMMENT ON COLUMN tiers.invalid IS 'gates whose value cannot be used; they count as failed';
COMMENT ON COLUMN tiers.skipped IS 'gates whose value is not in the artifact';
COMMENT ON COLUMN tiers.na IS 'gates whose value cannot exist here';
COMMENT ON COLUMN tiers.info IS 'specs that only record';
COMMENT ON COLUMN tiers.would_fail IS 'violated specs while thresholds are not enforced';
COMMENT ON COLUMN tiers.record IS 'specs not judged because thresholds are not enforced';
COMMENT ON COLUMN tiers.worst_metric IS 'metric of the smallest margin';
COMMENT ON COLUMN tiers.worst_margin_pct IS 'smallest signed margin, per cent, negative if a gate failed';
