-- data_quality: what a reader should know before trusting the numbers. Shown
-- beside a gate; never changes its state.
-- grain: one row per finding
-- reads: problem, metrics
-- unit:  none; the numbers are in message
CREATE OR REPLACE VIEW data_quality AS
WITH m AS (
    SELECT run_id, cell_key, host, metric, value, quality, note, known, key FROM metrics
), c AS (
    SELECT run_id, cell_key, host,
           max(value) FILTER (WHERE metric = 'num_prompts') AS num_prompts,
           coalesce(max(value) FILTER (WHERE metric = 'max_concurrency'), try_cast(regexp_extract(cell_key, 'CONC=([0-9]+)', 1) AS DOUBLE)) AS max_concurrency,
           max(value) FILTER (WHERE metric = 'completed') AS completed,
           max(value) FILTER (WHERE metric = 'failed') AS failed,
           max(value) FILTER (WHERE metric = 'duration') AS duration,
           max(value) FILTER (WHERE metric = 'request_throughput') AS request_throughput,
           max(value) FILTER (WHERE metric = 'output_throughput') AS output_throughput,
           max(value) FILTER (WHERE metric = 'total_output_tokens') AS total_output_tokens,
           max(value) FILTER (WHERE metric = 'median_ttft_ms') AS median_ttft_ms,
           max(value) FILTER (WHERE metric = 'p90_ttft_ms') AS p90_ttft_ms,
           max(value) FILTER (WHERE metric = 'p95_ttft_ms') AS p95_ttft_ms,
           max(value) FILTER (WHERE metric = 'p99_ttft_ms') AS p99_ttft_ms,
           max(value) FILTER (WHERE metric = 'median_tpot_ms') AS median_tpot_ms,
           max(value) FILTER (WHERE metric = 'p90_tpot_ms') AS p90_tpot_ms,
           max(value) FILTER (WHERE metric = 'p95_tpot_ms') AS p95_tpot_ms,
           max(value) FILTER (WHERE metric = 'p99_tpot_ms') AS p99_tpot_ms,
           max(value) FILTER (WHERE metric = 'median_itl_ms') AS median_itl_ms,
           max(value) FILTER (WHERE metric = 'p95_itl_ms') AS p95_itl_ms,
           max(value) FILTER (WHERE metric = 'p99_itl_ms') AS p99_itl_ms,
           max(value) FILTER (WHERE metric = 'mean_e2el_ms') AS mean_e2el_ms,
           max(value) FILTER (WHERE metric = 'median_e2el_ms') AS median_e2el_ms,
           max(value) FILTER (WHERE metric = 'p90_e2el_ms') AS p90_e2el_ms,
           max(value) FILTER (WHERE metric = 'p95_e2el_ms') AS p95_e2el_ms,
           max(value) FILTER (WHERE metric = 'p99_e2el_ms') AS p99_e2el_ms
    FROM m WHERE known GROUP BY run_id, cell_key, host
), checks AS (
    SELECT run_id, cell_key, host, 'counts' AS code,
           'completed ' || num_text(completed) || ' + failed ' || num_text(failed) || ' is not num_prompts ' || num_text(num_prompts) AS message
    FROM c WHERE completed + failed <> num_prompts
    UNION ALL
    SELECT run_id, cell_key, host, 'throughput',
           'output_throughput ' || num_text(output_throughput) || ' is not total_output_tokens / duration = ' || num_text(round(total_output_tokens / duration, 3))
    FROM c WHERE duration > 0 AND abs(output_throughput - total_output_tokens / duration) > 0.01 * output_throughput
    UNION ALL
    SELECT run_id, cell_key, host, 'request_rate',
           'request_throughput ' || num_text(request_throughput) || ' is not completed / duration = ' || num_text(round(completed / duration, 4))
    FROM c WHERE duration > 0 AND abs(request_throughput - completed / duration) > 0.01 * request_throughput
    UNION ALL
    SELECT run_id, cell_key, host, 'quantiles', 'the quantiles of TTFT are not in order'
    FROM c WHERE median_ttft_ms > p99_ttft_ms OR p90_ttft_ms > p95_ttft_ms OR p95_ttft_ms > p99_ttft_ms OR median_ttft_ms > p90_ttft_ms
    UNION ALL
    SELECT run_id, cell_key, host, 'quantiles', 'the quantiles of TPOT are not in order'
    FROM c WHERE median_tpot_ms > p99_tpot_ms OR p90_tpot_ms > p95_tpot_ms OR p95_tpot_ms > p99_tpot_ms OR median_tpot_ms > p90_tpot_ms
    UNION ALL
    SELECT run_id, cell_key, host, 'quantiles', 'the quantiles of ITL are not in order'
    FROM c WHERE median_itl_ms > p99_itl_ms OR p95_itl_ms > p99_itl_ms OR median_itl_ms > p95_itl_ms
    UNION ALL
    SELECT run_id, cell_key, host, 'quantiles', 'the quantiles of end-to-end latency are not in order'
    FROM c WHERE median_e2el_ms > p99_e2el_ms OR p90_e2el_ms > p95_e2el_ms OR p95_e2el_ms > p99_e2el_ms OR median_e2el_ms > p90_e2el_ms
    UNION ALL
    SELECT run_id, cell_key, host, 'littles_law',
           'with ' || num_text(max_concurrency) || ' requests in flight of ' || num_text(mean_e2el_ms) || ' ms each, ' || num_text(request_throughput)
           || ' req/s is more than can be served'
    FROM c WHERE mean_e2el_ms > 0 AND max_concurrency > 0 AND request_throughput > 1.1 * 1000 * max_concurrency / mean_e2el_ms
    UNION ALL
    SELECT run_id, cell_key, host, 'lost_requests',
           num_text(failed) || ' of ' || num_text(completed + failed) || ' requests failed: throughput and latency are those of the rest'
    FROM c WHERE failed > 0 AND completed > 0
    UNION ALL
    -- The 95 % interval of a quantile by order statistics, with the normal
    -- approximation of the binomial: ranks 0.99 n -+ 1.96 sqrt(0.99 * 0.01 * n).
    SELECT run_id, cell_key, host, 'percentile_validity',
           'P99 of ' || num_text(completed) || ' requests: its 95 % interval is from request ' || num_text(floor(0.99 * completed - 1.96 * sqrt(0.0099 * completed)))
           || CASE WHEN 0.99 * completed + 1.96 * sqrt(0.0099 * completed) > completed - 1 THEN ' in order of size to the largest' ELSE
              ' to request ' || num_text(ceil(0.99 * completed + 1.96 * sqrt(0.0099 * completed))) || ' in order of size' END
    FROM c WHERE completed > 0 AND completed < 500 AND coalesce(p99_ttft_ms, p99_tpot_ms, p99_itl_ms, p99_e2el_ms) IS NOT NULL
    UNION ALL
    SELECT run_id, cell_key, host, 'few_prompts',
           num_text(num_prompts) || ' prompts are fewer than ten for each of ' || num_text(max_concurrency) || ' requests in flight: start and end weigh much'
    FROM c WHERE num_prompts > 0 AND num_prompts < 10 * max_concurrency
)
SELECT run_id, severity, code, cell_key, task_id, NULL::VARCHAR AS host, path, line, message, ordinal
FROM problem
UNION ALL
SELECT run_id, CASE WHEN code = 'few_prompts' THEN 'warning' ELSE 'finding' END, code, cell_key, NULL, host, NULL, NULL, message, 100000
FROM checks
UNION ALL
SELECT run_id, CASE WHEN quality = 'not_applicable' THEN 'finding' ELSE 'warning' END, 'unusable', cell_key, NULL, host, NULL, NULL,
       metric || ': ' || coalesce(note, quality), 100001
FROM m WHERE known AND quality NOT IN ('ok', 'null', 'not_applicable') AND key IS NOT NULL;
COMMENT ON VIEW data_quality IS 'What a reader should know before trusting the numbers; one row per finding';
COMMENT ON COLUMN data_quality.run_id IS 'run';
COMMENT ON COLUMN data_quality.severity IS 'data_error (the result is not used), warning, finding (a plausibility check)';
COMMENT ON COLUMN data_quality.code IS 'kind of finding';
COMMENT ON COLUMN data_quality.cell_key IS 'cell concerned, NULL if none';
COMMENT ON COLUMN data_quality.task_id IS 'accuracy task concerned, NULL if none';
COMMENT ON COLUMN data_quality.host IS 'node, NULL if none';
COMMENT ON COLUMN data_quality.path IS 'file, NULL if none';
COMMENT ON COLUMN data_quality.line IS 'line of it, NULL or 0 if none';
COMMENT ON COLUMN data_quality.message IS 'the finding';
COMMENT ON COLUMN data_quality.ordinal IS 'display order';
