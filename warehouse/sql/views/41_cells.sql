-- cells: one wide row a cell, the known metrics as columns, for people and charts.
-- grain: run_id, cell_key, host (one row with host NULL for a cell without result)
-- reads: expected_cell, cell_status, metrics, run
-- unit:  tok/s, ms, req/s, s as the column names say; per_gpu figures divide by TP * PP * DP
CREATE OR REPLACE VIEW cells AS
WITH w AS (
    SELECT run_id, cell_key, host, max(repeats) AS repeats,
           max(value) FILTER (WHERE metric = 'max_concurrency') AS max_concurrency,
           max(value) FILTER (WHERE metric = 'max_concurrent_requests') AS max_concurrent_requests,
           max(value) FILTER (WHERE metric = 'num_prompts') AS num_prompts,
           max(value) FILTER (WHERE metric = 'completed') AS completed,
           max(value) FILTER (WHERE metric = 'failed') AS failed,
           max(value) FILTER (WHERE metric = 'success_rate') AS success_rate,
           max(value) FILTER (WHERE metric = 'duration') AS duration,
           max(value) FILTER (WHERE metric = 'request_throughput') AS request_throughput,
           max(value) FILTER (WHERE metric = 'goodput') AS goodput,
           max(value) FILTER (WHERE metric = 'output_throughput') AS output_throughput,
           max(value) FILTER (WHERE metric = 'total_token_throughput') AS total_token_throughput,
           max(value) FILTER (WHERE metric = 'per_gpu_throughput') AS per_gpu_throughput,
           max(value) FILTER (WHERE metric = 'output_tput_per_gpu') AS output_tput_per_gpu,
           max(value) FILTER (WHERE metric = 'decode_throughput_p50') AS decode_throughput_p50,
           max(value) FILTER (WHERE metric = 'max_output_tokens_per_s') AS max_output_tokens_per_s,
           max(value) FILTER (WHERE metric = 'total_input_tokens') AS total_input_tokens,
           max(value) FILTER (WHERE metric = 'total_output_tokens') AS total_output_tokens,
           max(value) FILTER (WHERE metric = 'mean_ttft_ms') AS mean_ttft_ms,
           max(value) FILTER (WHERE metric = 'median_ttft_ms') AS median_ttft_ms,
           max(value) FILTER (WHERE metric = 'p90_ttft_ms') AS p90_ttft_ms,
           max(value) FILTER (WHERE metric = 'p95_ttft_ms') AS p95_ttft_ms,
           max(value) FILTER (WHERE metric = 'p99_ttft_ms') AS p99_ttft_ms,
           max(value) FILTER (WHERE metric = 'normalized_ttft_ms_per_tok') AS normalized_ttft_ms_per_tok,
           max(value) FILTER (WHERE metric = 'mean_tpot_ms') AS mean_tpot_ms,
           max(value) FILTER (WHERE metric = 'median_tpot_ms') AS median_tpot_ms,
           max(value) FILTER (WHERE metric = 'p90_tpot_ms') AS p90_tpot_ms,
           max(value) FILTER (WHERE metric = 'p95_tpot_ms') AS p95_tpot_ms,
           max(value) FILTER (WHERE metric = 'p99_tpot_ms') AS p99_tpot_ms,
           max(value) FILTER (WHERE metric = 'mean_itl_ms') AS mean_itl_ms,
           max(value) FILTER (WHERE metric = 'median_itl_ms') AS median_itl_ms,
           max(value) FILTER (WHERE metric = 'p95_itl_ms') AS p95_itl_ms,
           max(value) FILTER (WHERE metric = 'p99_itl_ms') AS p99_itl_ms,
           max(value) FILTER (WHERE metric = 'decode_latency_ratio') AS decode_latency_ratio,
           max(value) FILTER (WHERE metric = 'mean_e2el_ms') AS mean_e2el_ms,
           max(value) FILTER (WHERE metric = 'median_e2el_ms') AS median_e2el_ms,
           max(value) FILTER (WHERE metric = 'p90_e2el_ms') AS p90_e2el_ms,
           max(value) FILTER (WHERE metric = 'p95_e2el_ms') AS p95_e2el_ms,
           max(value) FILTER (WHERE metric = 'p99_e2el_ms') AS p99_e2el_ms,
           max(value) FILTER (WHERE metric = 'scaling.efficiency_pct') AS scaling_efficiency_pct
    FROM metrics WHERE known GROUP BY run_id, cell_key, host
)
SELECT e.run_id, e.ordinal, e.cell_key, e.cell_id, e.combo, e.isl, e.osl, r.tp, r.pp, e.concurrency, e.planned, w.host, w.repeats,
       s.state, s.reason,
       w.max_concurrency,
       w.max_concurrent_requests,
       w.num_prompts,
       w.completed,
       w.failed,
       w.success_rate,
       w.duration,
       w.request_throughput,
       w.goodput,
       w.output_throughput,
       w.total_token_throughput,
       w.per_gpu_throughput,
       w.output_tput_per_gpu,
       w.decode_throughput_p50,
       w.max_output_tokens_per_s,
       w.total_input_tokens,
       w.total_output_tokens,
       w.mean_ttft_ms,
       w.median_ttft_ms,
       w.p90_ttft_ms,
       w.p95_ttft_ms,
       w.p99_ttft_ms,
       w.normalized_ttft_ms_per_tok,
       w.mean_tpot_ms,
       w.median_tpot_ms,
       w.p90_tpot_ms,
       w.p95_tpot_ms,
       w.p99_tpot_ms,
       w.mean_itl_ms,
       w.median_itl_ms,
       w.p95_itl_ms,
       w.p99_itl_ms,
       w.decode_latency_ratio,
       w.mean_e2el_ms,
       w.median_e2el_ms,
       w.p90_e2el_ms,
       w.p95_e2el_ms,
       w.p99_e2el_ms,
       w.scaling_efficiency_pct
FROM expected_cell e
JOIN run r ON r.run_id = e.run_id
JOIN cell_status s ON s.run_id = e.run_id AND s.cell_key = e.cell_key
LEFT JOIN w ON w.run_id = e.run_id AND w.cell_key = e.cell_key;
COMMENT ON VIEW cells IS 'One wide row per run, cell and host: the known metrics as columns; NULL where not measured or not usable';
COMMENT ON COLUMN cells.run_id IS 'run';
COMMENT ON COLUMN cells.ordinal IS 'order in the plan';
COMMENT ON COLUMN cells.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN cells.cell_id IS '<combo>-conc<concurrency>';
COMMENT ON COLUMN cells.combo IS 'name of the sequence combination';
COMMENT ON COLUMN cells.isl IS 'input length, tokens';
COMMENT ON COLUMN cells.osl IS 'output length, tokens';
COMMENT ON COLUMN cells.tp IS 'tensor parallel size';
COMMENT ON COLUMN cells.pp IS 'pipeline parallel size';
COMMENT ON COLUMN cells.concurrency IS 'configured limit of requests in flight';
COMMENT ON COLUMN cells.planned IS 'false: not planned, made from a loose result';
COMMENT ON COLUMN cells.host IS 'node the files came from; NULL for a cell without result';
COMMENT ON COLUMN cells.repeats IS 'benchmarks combined by their median';
COMMENT ON COLUMN cells.state IS 'error, fail, pass, record';
COMMENT ON COLUMN cells.reason IS 'why the state is what it is';
COMMENT ON COLUMN cells.max_concurrency IS 'metric max_concurrency: see metric_def';
COMMENT ON COLUMN cells.max_concurrent_requests IS 'metric max_concurrent_requests: see metric_def';
COMMENT ON COLUMN cells.num_prompts IS 'metric num_prompts: see metric_def';
COMMENT ON COLUMN cells.completed IS 'metric completed: see metric_def';
COMMENT ON COLUMN cells.failed IS 'metric failed: see metric_def';
COMMENT ON COLUMN cells.success_rate IS 'metric success_rate: see metric_def';
COMMENT ON COLUMN cells.duration IS 'metric duration: see metric_def';
COMMENT ON COLUMN cells.request_throughput IS 'metric request_throughput: see metric_def';
COMMENT ON COLUMN cells.goodput IS 'metric goodput: see metric_def';
COMMENT ON COLUMN cells.output_throughput IS 'metric output_throughput: see metric_def';
COMMENT ON COLUMN cells.total_token_throughput IS 'metric total_token_throughput: see metric_def';
COMMENT ON COLUMN cells.per_gpu_throughput IS 'metric per_gpu_throughput: see metric_def';
COMMENT ON COLUMN cells.output_tput_per_gpu IS 'metric output_tput_per_gpu: see metric_def';
COMMENT ON COLUMN cells.decode_throughput_p50 IS 'metric decode_throughput_p50: see metric_def';
COMMENT ON COLUMN cells.max_output_tokens_per_s IS 'metric max_output_tokens_per_s: see metric_def';
COMMENT ON COLUMN cells.total_input_tokens IS 'metric total_input_tokens: see metric_def';
COMMENT ON COLUMN cells.total_output_tokens IS 'metric total_output_tokens: see metric_def';
COMMENT ON COLUMN cells.mean_ttft_ms IS 'metric mean_ttft_ms: see metric_def';
COMMENT ON COLUMN cells.median_ttft_ms IS 'metric median_ttft_ms: see metric_def';
COMMENT ON COLUMN cells.p90_ttft_ms IS 'metric p90_ttft_ms: see metric_def';
COMMENT ON COLUMN cells.p95_ttft_ms IS 'metric p95_ttft_ms: see metric_def';
COMMENT ON COLUMN cells.p99_ttft_ms IS 'metric p99_ttft_ms: see metric_def';
COMMENT ON COLUMN cells.normalized_ttft_ms_per_tok IS 'metric normalized_ttft_ms_per_tok: see metric_def';
COMMENT ON COLUMN cells.mean_tpot_ms IS 'metric mean_tpot_ms: see metric_def';
COMMENT ON COLUMN cells.median_tpot_ms IS 'metric median_tpot_ms: see metric_def';
COMMENT ON COLUMN cells.p90_tpot_ms IS 'metric p90_tpot_ms: see metric_def';
COMMENT ON COLUMN cells.p95_tpot_ms IS 'metric p95_tpot_ms: see metric_def';
COMMENT ON COLUMN cells.p99_tpot_ms IS 'metric p99_tpot_ms: see metric_def';
COMMENT ON COLUMN cells.mean_itl_ms IS 'metric mean_itl_ms: see metric_def';
COMMENT ON COLUMN cells.median_itl_ms IS 'metric median_itl_ms: see metric_def';
COMMENT ON COLUMN cells.p95_itl_ms IS 'metric p95_itl_ms: see metric_def';
COMMENT ON COLUMN cells.p99_itl_ms IS 'metric p99_itl_ms: see metric_def';
COMMENT ON COLUMN cells.decode_latency_ratio IS 'metric decode_latency_ratio: see metric_def';
COMMENT ON COLUMN cells.mean_e2el_ms IS 'metric mean_e2el_ms: see metric_def';
COMMENT ON COLUMN cells.median_e2el_ms IS 'metric median_e2el_ms: see metric_def';
COMMENT ON COLUMN cells.p90_e2el_ms IS 'metric p90_e2el_ms: see metric_def';
COMMENT ON COLUMN cells.p95_e2el_ms IS 'metric p95_e2el_ms: see metric_def';
COMMENT ON COLUMN cells.p99_e2el_ms IS 'metric p99_e2el_ms: see metric_def';
COMMENT ON COLUMN cells.scaling_efficiency_pct IS 'metric scaling.efficiency_pct: see metric_def';
