-- gpu_telemetry: what the GPUs did while a cell ran, each by itself and all
-- together, and for each cell without telemetry a row that says so.
-- grain: run_id, cell_key, repeat, host, gpu (scope total: host and gpu NULL)
-- reads: gpu_stat, expected_cell, expected_task, stage
-- unit:  MB, %, MHz, W, °C, J, s as the column names say
-- Absent telemetry is a fact of its own: state not_requested, not_run or absent,
-- never a row that is missing.
CREATE OR REPLACE VIEW gpu_telemetry AS
WITH polled AS (
    SELECT run_id, any_value(status) AS status, any_value(reason) AS reason FROM expected_task WHERE task_id = 'gpu_metrics_poll' GROUP BY run_id
), said AS (
    SELECT run_id, cell_id, arg_max(nullif(reason, ''), seq) AS reason FROM stage WHERE stage = 'gpu_metrics_poll' GROUP BY run_id, cell_id
)
SELECT s.run_id, coalesce(e.cell_key, '') AS cell_key, s.cell_id, s.repeat, nullif(s.host, '') AS host, s.gpu,
       CASE WHEN s.gpu IS NULL THEN 'total' ELSE 'gpu' END AS scope,
       CASE WHEN s.samples = 0 THEN 'absent' WHEN s.status <> 'done' OR s.problems > 0 THEN 'partial' ELSE 'sampled' END AS state,
       CASE WHEN s.samples = 0 OR s.status <> 'done' THEN coalesce(s.reason, 'no sample was taken')
            WHEN s.problems > 0 THEN s.problems || ' of ' || (s.problems + s.samples) || ' samples could not be read' END AS reason,
       s.samples, s.problems, s.window_start, s.window_end, s.seconds,
       s.peak_vram_mb, s.mean_gfx_pct, s.mean_umc_pct, s.mean_gfx_mhz, s.mean_power_w, s.peak_power_w, s.peak_hotspot_c,
       s.energy_j, s.energy_from, s.throttled_pct, s.limits, s.path, e.ordinal
FROM gpu_stat s
LEFT JOIN expected_cell e ON e.run_id = s.run_id AND e.cell_id = s.cell_id
UNION ALL
SELECT e.run_id, e.cell_key, e.cell_id, NULL, NULL, NULL, 'total',
       CASE WHEN p.run_id IS NULL THEN 'not_requested' WHEN p.status = 'not_run' THEN 'not_run' ELSE 'absent' END,
       CASE WHEN p.run_id IS NULL THEN 'platform.gpu_metrics_poll is off' WHEN p.status = 'not_run' THEN p.reason
            ELSE coalesce(d.reason, p.reason, 'the cell left no telemetry') END,
       0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, e.ordinal
FROM expected_cell e
LEFT JOIN polled p ON p.run_id = e.run_id
LEFT JOIN said d ON d.run_id = e.run_id AND d.cell_id = e.cell_id
WHERE NOT EXISTS (SELECT 1 FROM gpu_stat s WHERE s.run_id = e.run_id AND s.cell_id = e.cell_id);
COMMENT ON VIEW gpu_telemetry IS 'What the GPUs did while a cell ran; one row per run, cell, repeat and GPU, one for all of them, and one per cell without telemetry';
COMMENT ON COLUMN gpu_telemetry.run_id IS 'run';
COMMENT ON COLUMN gpu_telemetry.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…, empty if the cell is not of the plan';
COMMENT ON COLUMN gpu_telemetry.cell_id IS 'id of the cell';
COMMENT ON COLUMN gpu_telemetry.repeat IS 'repeat of the cell, from 1; NULL without telemetry';
COMMENT ON COLUMN gpu_telemetry.host IS 'node, NULL for all';
COMMENT ON COLUMN gpu_telemetry.gpu IS 'number of the GPU on its host, NULL for all';
COMMENT ON COLUMN gpu_telemetry.scope IS 'gpu, or total: all GPUs of all hosts';
COMMENT ON COLUMN gpu_telemetry.state IS 'sampled, partial (some samples are missing), absent, not_run, not_requested';
COMMENT ON COLUMN gpu_telemetry.reason IS 'why the state is not sampled';
COMMENT ON COLUMN gpu_telemetry.samples IS 'samples with readings, of all hosts';
COMMENT ON COLUMN gpu_telemetry.problems IS 'samples without';
COMMENT ON COLUMN gpu_telemetry.window_start IS 'first sample with readings, UTC, the host''s clock';
COMMENT ON COLUMN gpu_telemetry.window_end IS 'last sample with readings';
COMMENT ON COLUMN gpu_telemetry.seconds IS 'from the first to the last';
COMMENT ON COLUMN gpu_telemetry.peak_vram_mb IS 'most memory in use, MB; total: sum over GPUs at one moment, added over hosts';
COMMENT ON COLUMN gpu_telemetry.mean_gfx_pct IS 'mean compute activity, per cent';
COMMENT ON COLUMN gpu_telemetry.mean_umc_pct IS 'mean memory activity, per cent';
COMMENT ON COLUMN gpu_telemetry.mean_gfx_mhz IS 'mean compute clock, MHz';
COMMENT ON COLUMN gpu_telemetry.mean_power_w IS 'mean socket power, W; total: sum over GPUs';
COMMENT ON COLUMN gpu_telemetry.peak_power_w IS 'peak socket power, W; total: sum over GPUs of their peaks';
COMMENT ON COLUMN gpu_telemetry.peak_hotspot_c IS 'highest hotspot temperature, °C';
COMMENT ON COLUMN gpu_telemetry.energy_j IS 'energy used in the window, J; total only if every GPU has one';
COMMENT ON COLUMN gpu_telemetry.energy_from IS 'counter, or power (integrated)';
COMMENT ON COLUMN gpu_telemetry.throttled_pct IS 'share of samples with a violated limit, per cent; total: of the worst GPU';
COMMENT ON COLUMN gpu_telemetry.limits IS 'limits that were violated';
COMMENT ON COLUMN gpu_telemetry.path IS 'summary file, relative to the run directory';
COMMENT ON COLUMN gpu_telemetry.ordinal IS 'order of the cell in the plan';
