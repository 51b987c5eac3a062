-- gates
SELECT * FROM cell_status WHERE run_id = '20260924T180211Z-4f9c2a';
-- gates
SELECT * FROM tiers WHERE run_id = '20260924T180211Z-4f9c2a';
-- charts
SELECT cell_key, metric, value FROM metrics WHERE run_id = '20260924T180211Z-4f9c2a' AND metric IN ('output_throughput', 'mean_ttft_ms', 'mean_tpot_ms', 'mean_itl_ms', 'mean_e2el_ms', 'p99_ttft_ms');
-- interactivity
SELECT p.cell_key, p.value AS tok_s_gpu, 1000 / t.value AS tok_s_user FROM metrics p JOIN metrics t USING (run_id, cell_key, host) WHERE p.run_id = '20260924T180211Z-4f9c2a' AND p.metric = 'per_gpu_throughput' AND t.metric = 'mean_tpot_ms' AND t.value > 0;
-- distributions
SELECT * FROM request_quantiles WHERE run_id = '20260924T180211Z-4f9c2a';
-- previous
SELECT * FROM prev_run WHERE run_id = '20260924T180211Z-4f9c2a';
-- changed
SELECT * FROM what_changed('before', '20260924T180211Z-4f9c2a');
-- golden
SELECT * FROM golden WHERE run_id = '20260924T180211Z-4f9c2a';
-- trend
SELECT * FROM trend WHERE run_id = '20260924T180211Z-4f9c2a' AND metric IN ('output_throughput', 'mean_ttft_ms', 'mean_tpot_ms');
-- parity
SELECT * FROM framework_parity WHERE run_id = '20260924T180211Z-4f9c2a';
-- scaling
SELECT * FROM scaling WHERE run_id = '20260924T180211Z-4f9c2a';
-- results
SELECT * FROM cells WHERE run_id = '20260924T180211Z-4f9c2a';
-- cells
SELECT * FROM gates WHERE run_id = '20260924T180211Z-4f9c2a';
-- cells
SELECT * FROM metrics WHERE run_id = '20260924T180211Z-4f9c2a';
-- slo
SELECT * FROM slo('20260924T180211Z-4f9c2a', '[{"metric":"p99_ttft_ms","op":"<=","bound":2000}]');
-- checks
SELECT * FROM check_gates WHERE run_id = '20260924T180211Z-4f9c2a';
-- accuracy
SELECT * FROM accuracy WHERE run_id = '20260924T180211Z-4f9c2a';
-- needles
SELECT * FROM long_context WHERE run_id = '20260924T180211Z-4f9c2a';
-- drafts
SELECT * FROM check_result WHERE run_id = '20260924T180211Z-4f9c2a' AND scope = 'mtp_quality';
-- telemetry
SELECT * FROM gpu_telemetry WHERE run_id = '20260924T180211Z-4f9c2a';
-- telemetry
SELECT * FROM gpu_point WHERE run_id = '20260924T180211Z-4f9c2a';
-- kernel
SELECT * FROM kernel_event WHERE run_id = '20260924T180211Z-4f9c2a';
-- quality
SELECT * FROM data_quality WHERE run_id = '20260924T180211Z-4f9c2a';
-- lifecycle
SELECT * FROM stage WHERE run_id = '20260924T180211Z-4f9c2a' ORDER BY seq;
-- logs
SELECT * FROM attempt WHERE run_id = '20260924T180211Z-4f9c2a' AND status <> 'done';
-- signoff
SELECT * FROM signoff_state(current_date) WHERE run_id = '20260924T180211Z-4f9c2a';
-- signoff
SELECT * FROM threshold_age WHERE run_id = '20260924T180211Z-4f9c2a';
-- artifacts
SELECT * FROM artifact WHERE run_id = '20260924T180211Z-4f9c2a';
-- notes
SELECT labels, notes FROM run WHERE run_id = '20260924T180211Z-4f9c2a';
