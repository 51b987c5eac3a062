-- measured: one value for everything that was measured, computed from the raw
-- values. Table measurement keeps its answer; ask view metrics.
-- grain: run_id, cell_key, host, metric
-- reads: sample_metrics
-- unit:  as in metric_def; value is NULL unless quality is ok
-- Repeats are combined by their median. One unusable repeat makes the value
-- unusable: a median that hides it would be a choice nobody made.
CREATE OR REPLACE VIEW measured AS
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
SELECT run_id, cell_key, host, metric,
       CASE WHEN bad IS NULL THEN mid END AS value,
       CASE WHEN bad IS NOT NULL THEN bad WHEN usable > 0 THEN 'ok' ELSE first_quality END AS quality,
       CASE WHEN bad IS NOT NULL THEN bad_text
            WHEN usable = 0 OR repeats = 1 THEN first_text END AS text,
       CASE WHEN bad IS NOT NULL THEN bad_note ELSE first_note END AS note,
       derived,
       key,
       repeats::INTEGER AS repeats,
       CASE WHEN bad IS NULL THEN low END AS low,
       CASE WHEN bad IS NULL THEN high END AS high
FROM combined;
COMMENT ON VIEW measured IS 'Computes what table measurement keeps: one value per run, cell, host and metric; ask view metrics';
COMMENT ON COLUMN measured.run_id IS 'run';
COMMENT ON COLUMN measured.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN measured.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN measured.metric IS 'our name, or the raw key where it means none of ours';
COMMENT ON COLUMN measured.value IS 'the number, NULL unless quality is ok';
COMMENT ON COLUMN measured.quality IS 'ok, null, non_numeric, non_finite, out_of_range, impossible, contradiction, not_applicable';
COMMENT ON COLUMN measured.text IS 'the value as written; NULL for a median of several';
COMMENT ON COLUMN measured.note IS 'formula of a derived value, or why the value cannot be used';
COMMENT ON COLUMN measured.derived IS 'true: computed, not copied from the file';
COMMENT ON COLUMN measured.key IS 'key in the raw file, NULL if derived';
COMMENT ON COLUMN measured.repeats IS 'benchmarks combined';
COMMENT ON COLUMN measured.low IS 'smallest of the repeats';
COMMENT ON COLUMN measured.high IS 'largest of the repeats';
