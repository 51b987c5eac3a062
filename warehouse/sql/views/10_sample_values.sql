-- sample_values: what one benchmark wrote, under our names, before anything is
-- derived or combined.
-- grain: run_id, sample_no, metric
-- reads: sample, raw_value, metric_def, expected_cell, threshold
-- unit:  as in metric_def; keys we do not know keep their own name and unit
-- Only samples that may be used count. value is NULL unless quality is ok.
CREATE OR REPLACE VIEW sample_values AS
WITH s AS (
    SELECT s.run_id, s.sample_no, s.cell_key, s.host, s.repeat, s.path,
           coalesce(e.osl, s.osl) AS osl
    FROM sample s
    LEFT JOIN expected_cell e ON e.run_id = s.run_id AND e.cell_key = s.cell_key
    WHERE s.role = 'cell' AND s.usable AND s.cell_key IS NOT NULL
), asked AS (
    SELECT run_id, metric AS name FROM threshold WHERE scope = 'cell'
    UNION
    SELECT run_id, reference FROM threshold WHERE scope = 'cell' AND reference IS NOT NULL
), v AS (
    SELECT r.run_id, r.sample_no, coalesce(r.metric, r.key) AS metric, r.metric IS NOT NULL AS known,
           r.key, r.pointer, r.number, r.quality, r.text, r.kind
    FROM raw_value r
    WHERE r.parent = '' OR r.metric IS NOT NULL
), joined AS (
    -- windows, not joins with themselves: a filter on run_id goes through them
    SELECT s.*, v.metric, v.known, v.key, v.pointer, v.number, v.quality, v.text, v.kind, coalesce(d.tier, 'record') AS tier, d.name IS NOT NULL AS ours,
           a.name IS NOT NULL AS asked,
           max(v.number) FILTER (WHERE v.metric = 'completed' AND v.known AND v.quality = 'ok') OVER one AS completed,
           max(v.number) FILTER (WHERE v.metric = 'duration' AND v.known AND v.quality = 'ok') OVER one AS duration
    FROM s
    JOIN v ON v.run_id = s.run_id AND v.sample_no = s.sample_no
    LEFT JOIN metric_def d ON d.name = v.metric
    LEFT JOIN asked a ON a.run_id = s.run_id AND a.name = v.metric
    WINDOW one AS (PARTITION BY s.run_id, s.sample_no)
), ruled AS (
    SELECT *,
           CASE                                      -- first match wins; the order is the rule
               WHEN NOT known THEN NULL
               WHEN completed = 0 AND tier IN ('ttft', 'tpot', 'itl', 'e2el') THEN 'nothing completed'
               WHEN osl = 1 AND tier IN ('tpot', 'itl') THEN 'one token'
               WHEN quality = 'ok' AND number < 0 THEN 'negative'
               WHEN quality = 'ok' AND metric IN ('completed', 'failed') AND number <> trunc(number) THEN 'no count'
               WHEN quality = 'ok' AND abs(number) >= 9007199254740992 AND regexp_full_match(text, '-?[0-9]+') THEN 'too exact' -- 2^53
               WHEN quality = 'ok' AND duration <= 0 AND completed > 0
                    AND (tier = 'throughput' OR metric IN ('duration', 'request_throughput', 'goodput')) THEN 'no time'
           END AS rule
    FROM joined
    WHERE known
       -- else a key we do not know; not one that bears the name of ours without being it
       OR (NOT ours AND (kind = 'number' OR quality = 'ok' OR asked))
), graded AS (
    SELECT * EXCLUDE (quality),
           left(text, 80) || CASE WHEN length(text) > 80 THEN '…' ELSE '' END AS said, -- whatever its length, a message keeps one
           CASE WHEN rule IN ('nothing completed', 'one token') THEN 'not_applicable' WHEN rule IS NOT NULL THEN 'impossible' ELSE quality END AS quality,
           CASE rule
               WHEN 'nothing completed' THEN 'no request completed'
               WHEN 'one token' THEN 'one output token: there is no time per further token'
               WHEN 'negative' THEN said || ' is negative'
               WHEN 'no count' THEN said || ' is no whole number of requests'
               WHEN 'too exact' THEN said || ' is a count from 2^53 on: the numbers here cannot hold it exactly'
               WHEN 'no time' THEN 'the duration is ' || num_text(duration) || ' s'
               ELSE CASE quality
                   WHEN 'null' THEN 'null in artifact'
                   WHEN 'non_finite' THEN said || ' is not a finite number'
                   WHEN 'out_of_range' THEN said || ' is out of the range of a double'
                   WHEN 'non_numeric' THEN CASE kind WHEN 'string' THEN '"' || said || '"'
                        WHEN 'boolean' THEN coalesce(said, 'a boolean') WHEN 'list' THEN 'a list' WHEN 'object' THEN 'an object' ELSE kind END || ' is not a number' END
           END AS note
    FROM ruled
)
SELECT run_id, sample_no, cell_key, host, repeat, path, metric, known, key, pointer,
       CASE WHEN quality = 'ok' THEN number END AS value, quality, text, note
FROM graded;
COMMENT ON VIEW sample_values IS 'What each usable benchmark wrote, under our names, before derivation; one row per run, sample and metric';
COMMENT ON COLUMN sample_values.run_id IS 'run';
COMMENT ON COLUMN sample_values.sample_no IS 'benchmark within the run, from 1';
COMMENT ON COLUMN sample_values.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN sample_values.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN sample_values.repeat IS 'repeat of the cell, from 1';
COMMENT ON COLUMN sample_values.path IS 'raw file, relative to the run directory';
COMMENT ON COLUMN sample_values.metric IS 'our name, or the raw key where it means none of ours';
COMMENT ON COLUMN sample_values.known IS 'true: one of the metrics in metric_def';
COMMENT ON COLUMN sample_values.key IS 'key in the raw file';
COMMENT ON COLUMN sample_values.pointer IS 'JSON pointer within the sample';
COMMENT ON COLUMN sample_values.value IS 'the number, NULL unless quality is ok';
COMMENT ON COLUMN sample_values.quality IS 'ok, null, non_numeric, non_finite, out_of_range, impossible, not_applicable';
COMMENT ON COLUMN sample_values.text IS 'the value as written';
COMMENT ON COLUMN sample_values.note IS 'why the value cannot be used, NULL if it can';
