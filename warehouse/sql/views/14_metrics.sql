-- metrics: one value for everything that was measured, raw or derived.
-- grain: run_id, cell_key, host, metric
-- reads: measurement (what view measured computed at load), metric_def
-- unit:  column unit; value is NULL unless quality is ok
CREATE OR REPLACE VIEW metrics AS
SELECT m.run_id, m.cell_key, m.host, m.metric,
       coalesce(d.label, m.metric) AS label,
       coalesce(d.unit, '') AS unit,
       coalesce(d.direction, 'neutral') AS direction,
       coalesce(d.tier, 'record') AS tier,
       coalesce(d.gated, false) AS gated,
       d.name IS NOT NULL AS known,
       m.value, m.quality, m.text, m.note, m.derived, m.key, m.repeats, m.low, m.high,
       coalesce(d.digits, 2) AS digits,
       coalesce(d.ordinal, 1000) AS ordinal
FROM measurement m
LEFT JOIN metric_def d ON d.name = m.metric;
COMMENT ON VIEW metrics IS 'Everything measured, raw or derived: one value per run, cell, host and metric, the median of the repeats';
COMMENT ON COLUMN metrics.run_id IS 'run';
COMMENT ON COLUMN metrics.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN metrics.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN metrics.metric IS 'our name, or the raw key where it means none of ours';
COMMENT ON COLUMN metrics.label IS 'name for people';
COMMENT ON COLUMN metrics.unit IS 'tok/s, ms, req/s, s, %; empty for counts, fractions and unknown keys';
COMMENT ON COLUMN metrics.direction IS 'higher, lower or neutral: which way is better';
COMMENT ON COLUMN metrics.tier IS 'throughput, ttft, tpot, itl, e2el, health, scaling, record';
COMMENT ON COLUMN metrics.gated IS 'true: an enforced threshold file must have a spec for it';
COMMENT ON COLUMN metrics.known IS 'true: one of the metrics in metric_def';
COMMENT ON COLUMN metrics.value IS 'the number, NULL unless quality is ok';
COMMENT ON COLUMN metrics.quality IS 'ok, null, non_numeric, non_finite, out_of_range, impossible, contradiction, not_applicable';
COMMENT ON COLUMN metrics.text IS 'the value as written; NULL for a median of several';
COMMENT ON COLUMN metrics.note IS 'formula of a derived value, or why the value cannot be used';
COMMENT ON COLUMN metrics.derived IS 'true: computed, not copied from the file';
COMMENT ON COLUMN metrics.key IS 'key in the raw file, NULL if derived';
COMMENT ON COLUMN metrics.repeats IS 'benchmarks combined';
COMMENT ON COLUMN metrics.low IS 'smallest of the repeats';
COMMENT ON COLUMN metrics.high IS 'largest of the repeats';
COMMENT ON COLUMN metrics.digits IS 'decimals shown to people';
COMMENT ON COLUMN metrics.ordinal IS 'display order';
