-- request_quantiles: how the times of single requests are distributed, where the
-- client wrote them down.
-- grain: run_id, cell_key, host, measure, probability
-- reads: sample, shape_key, raw_row
-- unit:  ms
-- From the lists ttfts and itls, which are in seconds: ttft as it is, tpot the mean
-- of a request's gaps between tokens, e2el their sum and the first token. Requests
-- without a first token have failed and are left out; repeats of a cell are taken
-- together. Lists longer than 1 MiB are kept by their hash and are not there.
CREATE OR REPLACE VIEW request_quantiles AS
WITH raw AS (
    SELECT s.run_id, s.sample_no, s.cell_key, s.host, k.key, string_split(s.raws, chr(30))[k.place] AS raw
    FROM sample s JOIN shape_key k ON k.shape = s.shape
    WHERE k.key IN ('ttfts', 'itls') AND k.parent = '' AND s.usable AND s.cell_key IS NOT NULL
    UNION ALL
    SELECT s.run_id, s.sample_no, s.cell_key, s.host, r.key, r.raw
    FROM raw_row r JOIN sample s ON s.run_id = r.run_id AND s.sample_no = r.sample_no
    WHERE r.key IN ('ttfts', 'itls') AND r.parent = '' AND s.usable AND s.cell_key IS NOT NULL AND r.raw IS NOT NULL
), lists AS (
    SELECT run_id, cell_key, host, sample_no,
           max(CASE WHEN key = 'ttfts' AND json_valid(raw) THEN TRY(from_json(raw, '["DOUBLE"]')) END) AS first,
           max(CASE WHEN key = 'itls' AND json_valid(raw) THEN TRY(from_json(raw, '[["DOUBLE"]]')) END) AS gaps
    FROM raw GROUP BY run_id, cell_key, host, sample_no
), request AS (
    SELECT run_id, cell_key, host, unnest(first) AS first, unnest(CASE WHEN len(gaps) = len(first) THEN gaps END) AS gaps FROM lists
), times AS (
    SELECT run_id, cell_key, host, unnest([
        {measure: 'ttft', ms: 1000 * first}, {measure: 'tpot', ms: 1000 * list_avg(gaps)}, {measure: 'e2el', ms: CASE WHEN gaps IS NOT NULL THEN 1000 * (first + coalesce(list_sum(gaps), 0)) END}], recursive := true)
    FROM request WHERE first > 0 AND isfinite(first)
), q AS (
    SELECT run_id, cell_key, host, measure, count(*) AS requests,
           [0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1] AS probabilities,
           quantile_cont(ms, [0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1]) AS ms
    FROM times WHERE isfinite(ms) GROUP BY run_id, cell_key, host, measure
)
SELECT run_id, cell_key, host, measure, requests, unnest(probabilities)::DOUBLE AS probability, unnest(ms) AS ms FROM q;
COMMENT ON VIEW request_quantiles IS 'How the times of single requests are distributed, where the client wrote them down; one row per run, cell, host, measure and probability';
COMMENT ON COLUMN request_quantiles.run_id IS 'run';
COMMENT ON COLUMN request_quantiles.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN request_quantiles.host IS 'node that measured';
COMMENT ON COLUMN request_quantiles.measure IS 'ttft, tpot or e2el';
COMMENT ON COLUMN request_quantiles.requests IS 'requests behind it, of all repeats';
COMMENT ON COLUMN request_quantiles.probability IS 'share of requests that were at least as fast, 0 to 1';
COMMENT ON COLUMN request_quantiles.ms IS 'time at that share, linear between requests; ms';
