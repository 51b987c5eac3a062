-- telemetry_metrics: telemetry as metrics of a measured cell, and what a token
-- costs. Rows with a value are kept in table measurement: ask view metrics for
-- values, this view for the reason why there is none.
-- grain: run_id, cell_key, host, metric
-- reads: measurement, gpu_stat, model_load, attempt, expected_cell, run, gpu_telemetry
-- unit:  as in metric_def, where the formulas are
-- A power that was sampled once, or over less than half of the benchmark, says
-- little about it: no price of a token is made of it.
-- Power is that of every GPU of the hosts, so that the figures of a server which
-- uses only some of them are worse than they need be, never better.
CREATE OR REPLACE VIEW telemetry_metrics AS
WITH cell AS (                                      -- measured cells; the hosts' map is the cell's
    SELECT m.run_id, m.cell_key, m.host, e.cell_id, max(m.value) FILTER (WHERE m.metric = 'output_throughput') AS tput,
           max(m.value) FILTER (WHERE m.metric = 'duration') AS duration, any_value(r.tp * r.pp * r.dp) AS gpus
    FROM measurement m
    JOIN expected_cell e ON e.run_id = m.run_id AND e.cell_key = m.cell_key
    JOIN run r ON r.run_id = m.run_id
    WHERE m.metric IN ('output_throughput', 'duration') GROUP BY m.run_id, m.cell_key, m.host, e.cell_id
), total AS (
    SELECT run_id, cell_id, repeat, unnest([
        {metric: 'gpu.peak_gpu_memory_mb', value: peak_vram_mb}, {metric: 'gpu.gpu_compute_util_pct', value: mean_gfx_pct},
        {metric: 'gpu.gpu_bandwidth_util_pct', value: mean_umc_pct}, {metric: 'gpu.mean_power_w', value: mean_power_w},
        {metric: 'gpu.peak_power_w', value: peak_power_w}, {metric: 'gpu.energy_j', value: energy_j}, {metric: 'gpu.peak_hotspot_c', value: peak_hotspot_c},
        {metric: 'gpu.mean_gfx_mhz', value: mean_gfx_mhz}, {metric: 'gpu.throttled_pct', value: throttled_pct}], recursive := true)
    FROM gpu_stat WHERE gpu IS NULL AND samples > 0
    UNION ALL
    SELECT a.run_id, e.cell_id, a.repeat, unnest([{metric: 'gpu.model_load_s', value: l.seconds}, {metric: 'gpu.model_load_memory_mb', value: l.memory_mb}], recursive := true)
    FROM model_load l
    JOIN attempt a ON a.run_id = l.run_id AND a.server_session = l.server_session AND NOT coalesce(a.warm, true)
    JOIN expected_cell e ON e.run_id = a.run_id AND e.cell_key = a.cell_key
), sampled AS (                                     -- repeats are combined by their median, as everywhere
    SELECT run_id, cell_id, metric, median(value) AS value, count(value)::INTEGER AS repeats, min(value) AS low, max(value) AS high
    FROM total WHERE value IS NOT NULL GROUP BY run_id, cell_id, metric
), absent AS (
    SELECT run_id, cell_id, any_value(reason) AS reason FROM gpu_telemetry WHERE scope = 'total' AND state NOT IN ('sampled', 'partial') GROUP BY run_id, cell_id
), cover AS (                                       -- the repeat that was sampled least
    SELECT run_id, cell_id, min(samples) AS samples, min(coalesce(seconds, 0)) AS seconds FROM gpu_stat WHERE gpu IS NULL AND samples > 0 GROUP BY run_id, cell_id
), priced AS (
    SELECT c.*, p.value AS power, p.repeats,
           CASE WHEN p.value IS NULL THEN 'power was not sampled: ' || coalesce(a.reason, 'no GPU reports it')
                WHEN p.value <= 0 THEN 'the GPUs report a power of 0'
                WHEN c.tput IS NULL THEN 'no output_throughput'
                WHEN v.samples < 2 OR v.seconds < 0.5 * c.duration THEN 'power was sampled ' || v.samples || ' times over ' || num_text(round(v.seconds, 1))
                    || ' s of a benchmark of ' || coalesce(num_text(round(c.duration, 1)) || ' s', 'unknown length') END AS problem
    FROM cell c
    LEFT JOIN sampled p ON p.run_id = c.run_id AND p.cell_id = c.cell_id AND p.metric = 'gpu.mean_power_w'
    LEFT JOIN cover v ON v.run_id = c.run_id AND v.cell_id = c.cell_id
    LEFT JOIN absent a ON a.run_id = c.run_id AND a.cell_id = c.cell_id
)

SELECT c.run_id, c.cell_key, c.host, s.metric, s.value, CASE WHEN starts_with(s.metric, 'gpu.model_load') THEN 'measured when the server was started' ELSE 'sampled by amd-smi' END AS note, s.repeats, s.low, s.high
FROM cell c JOIN sampled s ON s.run_id = c.run_id AND s.cell_id = c.cell_id
UNION ALL
SELECT c.run_id, c.cell_key, c.host, x.metric,
       CASE WHEN c.problem IS NOT NULL THEN NULL WHEN x.metric = 'energy.output_tokens_per_joule' THEN c.tput / c.power ELSE 3600 * c.tput / nullif(c.gpus, 0) END AS value,
       coalesce(c.problem, x.formula), c.repeats, NULL, NULL
FROM priced c
CROSS JOIN (VALUES ('energy.output_tokens_per_joule', 'derived: output_throughput / gpu.mean_power_w'),
                   ('energy.output_tokens_per_gpu_hour', 'derived: 3600 * output_throughput / (TP * PP * DP)')) x(metric, formula);
COMMENT ON VIEW telemetry_metrics IS 'Telemetry as metrics of measured cells, and tokens per joule and per GPU-hour, NULL with the reason where power was not sampled';
COMMENT ON COLUMN telemetry_metrics.run_id IS 'run';
COMMENT ON COLUMN telemetry_metrics.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN telemetry_metrics.host IS 'node the cell''s result came from, empty if unknown; telemetry is that of all hosts';
COMMENT ON COLUMN telemetry_metrics.metric IS 'name in metric_def';
COMMENT ON COLUMN telemetry_metrics.value IS 'the number, NULL where note says why';
COMMENT ON COLUMN telemetry_metrics.note IS 'formula, or why there is no value';
COMMENT ON COLUMN telemetry_metrics.repeats IS 'repeats combined by their median';
COMMENT ON COLUMN telemetry_metrics.low IS 'smallest of the repeats';
COMMENT ON COLUMN telemetry_metrics.high IS 'largest of the repeats';
