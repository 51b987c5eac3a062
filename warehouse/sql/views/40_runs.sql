-- runs: the runs of this warehouse with identity and verdict, newest first.
-- grain: run_id
-- reads: run, run_status
-- unit:  times are UTC
CREATE OR REPLACE VIEW runs AS
SELECT r.run_id, r.suite, r.profile, r.started_at, r.ended_at, r.model, r.precision, r.gpu_arch, r.gpu_seen, r.gpu_confirmed,
       r.driver, r.tp, r.pp, r.dp, r.nnodes, r.tp * r.pp * r.dp AS gpus, r.image, r.hosts, r.scaling_baseline,
       r.simulated, r.enforce, r.enforce_origin, r.tool_version, r.command_line, r.launcher_host, r.launcher_user, r.labels, r.warnings, r.dir,
       s.status, s.verdict, s.incomplete, s.headline, s.exit_code, s.expected, s.measured, s.pass, s.fail, s.invalid, s.skipped
FROM run r
JOIN run_status s ON s.run_id = r.run_id;
COMMENT ON VIEW runs IS 'The runs of this warehouse with identity and verdict; one row per run';
COMMENT ON COLUMN runs.run_id IS 'run';
COMMENT ON COLUMN runs.suite IS 'suite, e.g. atom';
COMMENT ON COLUMN runs.profile IS 'profile of the configuration';
COMMENT ON COLUMN runs.started_at IS 'start, UTC; NULL for loose results without a time';
COMMENT ON COLUMN runs.ended_at IS 'end, UTC';
COMMENT ON COLUMN runs.model IS 'model id as configured';
COMMENT ON COLUMN runs.precision IS 'precision as configured';
COMMENT ON COLUMN runs.gpu_arch IS 'GPU as configured; NULL if the node contradicted it';
COMMENT ON COLUMN runs.gpu_seen IS 'GPU as node or client reported it';
COMMENT ON COLUMN runs.gpu_confirmed IS 'true: gpu_seen agrees with gpu_arch';
COMMENT ON COLUMN runs.driver IS 'atom, vllm_atom, vllm, sglang';
COMMENT ON COLUMN runs.tp IS 'tensor parallel size';
COMMENT ON COLUMN runs.pp IS 'pipeline parallel size';
COMMENT ON COLUMN runs.dp IS 'data parallel size';
COMMENT ON COLUMN runs.nnodes IS 'nodes';
COMMENT ON COLUMN runs.gpus IS 'TP * PP * DP';
COMMENT ON COLUMN runs.image IS 'container image';
COMMENT ON COLUMN runs.hosts IS 'hosts, head first, as a JSON list';
COMMENT ON COLUMN runs.scaling_baseline IS 'single-node output throughput for scaling.efficiency_pct, tok/s';
COMMENT ON COLUMN runs.simulated IS 'true: the lab, not hardware';
COMMENT ON COLUMN runs.enforce IS 'true: thresholds gate';
COMMENT ON COLUMN runs.enforce_origin IS 'who said so';
COMMENT ON COLUMN runs.tool_version IS 'cvs version that ran it';
COMMENT ON COLUMN runs.command_line IS 'command line as a JSON list, secrets redacted';
COMMENT ON COLUMN runs.launcher_host IS 'machine that ran cvs';
COMMENT ON COLUMN runs.launcher_user IS 'user that ran cvs';
COMMENT ON COLUMN runs.labels IS 'free facts as a JSON object';
COMMENT ON COLUMN runs.warnings IS 'warnings of the run as a JSON list';
COMMENT ON COLUMN runs.dir IS 'where it was loaded from';
COMMENT ON COLUMN runs.status IS 'running, done, failed, interrupted';
COMMENT ON COLUMN runs.verdict IS 'pass, fail or record';
COMMENT ON COLUMN runs.incomplete IS 'true: something planned has no result';
COMMENT ON COLUMN runs.headline IS 'FAIL, INCOMPLETE, PASS or RECORD';
COMMENT ON COLUMN runs.exit_code IS '0, 1, 3, 4 or 130';
COMMENT ON COLUMN runs.expected IS 'planned cells';
COMMENT ON COLUMN runs.measured IS 'cells with a usable result';
COMMENT ON COLUMN runs.pass IS 'gates that hold';
COMMENT ON COLUMN runs.fail IS 'gates that do not hold';
COMMENT ON COLUMN runs.invalid IS 'gates whose value cannot be used';
COMMENT ON COLUMN runs.skipped IS 'gates whose value is not in the artifact';
