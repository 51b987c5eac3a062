-- metrics: one value for everything that was measured, raw or derived.
-- grain: run_id, cell_key, host, metric
-- reads: sample_metrics, metric_def
-- unit:  column unit; value is NULL unless quality is ok
-- Repeats are combined by their median. One unusable repeat makes the value
-- unusable: a median that hides it would be a choice nobody made.
CREATE OR REPLACE VIEW metrics AS
WITH combined AS (
    SELECT run_id, cell_key, host, metric,
           count(*) AS repeats,
           count(value) AS usable,
           median(value) AS mid, min(value) AS low, max(value) AS high,
           bool_or(derived) AS derived,
           arg_min(quality, repeat) FILTER (WHERE quality NOT IN ('ok', 'null', 'missing', 'not_applicable')) AS bad,
           arg_min(text, repeat) FILTER (WHERE quality NOT IN ('ok', 'null', 'missing', 'not_applicable')) AS bad_text,
           arg_min(note, repeat) FILTER (WHERE quality NOT IN ('ok', 'null', 'missing', 'not_applicable')) AS bad_note,
           arg_min(quality, repeat) AS first_quality,
           arg_min(text, repeat) AS first_text,
           arg_min(note, repeat) AS first_note,
           arg_min(key, repeat) AS key
    FROM sample_metrics
    GROUP BY run_id, cell_key, host, metric
)
SELECT c.run_id, c.cell_key, c.host, c.metric,
       coalesce(d.label, c.metric) AS label,
       coalesce(d.unit, '') AS unit,
       coalesce(d.direction, 'neutral') AS direction,
       coalesce(d.tier, 'record') AS tier,
       coalesce(d.gated, false) AS gated,
       d.name IS NOT NULL AS known,
       CASE WHEN c.bad IS NULL THEN c.mid END AS value,
       CASE WHEN c.bad IS NOT NULL THEN c.bad WHEN c.usable > 0 THEN 'ok' ELSE c.first_quality END AS quality,
       CASE WHEN c.bad IS NOT NULL THEN c.bad_text
            WHEN c.usable = 0 OR c.repeats = 1 THEN c.first_text END AS text,
       CASE WHEN c.bad IS NOT NULL THEN c.bad_note ELSE c.first_note END AS note,
       c.derived,
       c.key,
       c.repeats::INTEGER AS repeats,
       CASE WHEN c.bad IS NULL THEN c.low END AS low,
       CASE WHEN c.bad IS NULL THEN c.high END AS high,
       coalesce(d.digits, 2) AS digits,
       coalesce(d.ordinal, 1000) AS ordinal
FROM combined c
LEFT JOIN metric_def d ON d.name = c.metric;
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
