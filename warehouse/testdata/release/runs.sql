-- Runs of which each is unfit for a release in its own way, and a few that are fit.
-- Two people approved each under the rules of policy.json unless its fault is that.
CREATE TABLE fault AS
SELECT * FROM (VALUES
    ('good', 1, 'none'), ('v', 20, 'none'), ('old', 8, 'none'), ('edge', 7, 'none'), ('no start', NULL, 'none'), ('future', -2, 'none'),
    ('simulated', 1, 'simulated'), ('failed', 1, 'failed'), ('expired', 1, 'expired'), ('waived', 1, 'waived'), ('incomplete', 1, 'incomplete'), ('record', 1, 'record'),
    ('vacuous', 1, 'vacuous'), ('unsigned', 1, 'unsigned'), ('stale', 1, 'stale'), ('rejected', 1, 'rejected'), ('conditional', 1, 'conditional'), ('nobody known', 1, 'unchecked'),
    ('other rules', 1, 'rules'), ('news, bad', 1, 'failed'), ('news, older', 3, 'none'), ('mend, bad', 3, 'failed'), ('mend, good', 1, 'none'), ('fp8', 1, 'none'), ('model[1]', 1, 'none')) t(run_id, age, fault);
INSERT INTO run (run_id, content_sha256, status, enforce, simulated, gpu_confirmed, tp, pp, dp, nnodes, started_at, model, driver, gpu_arch, precision)
SELECT run_id, '', 'done', fault <> 'record', fault = 'simulated', true, 8, 1, 1, 1, TIMESTAMP '2026-09-20' - to_days(age),
       CASE run_id WHEN 'model[1]' THEN 'deep\seek[1]' ELSE 'r1-' || split_part(run_id, ', ', 1) END, CASE run_id WHEN 'v' THEN 'vllm_atom' ELSE 'atom' END, 'mi325x', CASE run_id WHEN 'fp8' THEN 'fp8' ELSE 'fp4' END FROM fault;
INSERT INTO expected_cell (run_id, ordinal, cell_key, cell_id, combo, isl, osl, concurrency, num_prompts, repeats, planned)
SELECT run_id, 1, 'c', 'w1-conc128', 'w1', 1024, 1024, 128, 1000, 1, true FROM fault;
INSERT INTO sample (run_id, sample_no, path, line, role, format, cell_key, repeat, host, usable, digest)
SELECT run_id, 1, 'results.json', 1, 'cell', 'atom_benchmark_serving', 'c', 1, '', true, '' FROM fault WHERE fault <> 'incomplete';
INSERT INTO raw_row BY NAME SELECT v.* REPLACE (f.run_id AS run_id) FROM val('output_throughput', 2000) v, fault f WHERE f.fault <> 'incomplete';
INSERT INTO threshold BY NAME SELECT s.* REPLACE (f.run_id AS run_id) FROM spec('output_throughput', 'min', 1500) s, fault f;
UPDATE threshold SET value = 2500 FROM fault f WHERE threshold.run_id = f.run_id AND f.fault IN ('failed', 'expired', 'waived');
UPDATE threshold SET value = 1 FROM fault f WHERE threshold.run_id = f.run_id AND f.fault = 'vacuous';
INSERT INTO waiver (run_id, waiver_id, cell, metric, reason, owner, issue, last_day, line)
SELECT run_id, 'W', 'c', '*', 'known', 'o', 'i', CASE fault WHEN 'expired' THEN DATE '2026-09-19' ELSE DATE '2026-09-30' END, 1 FROM fault WHERE fault IN ('expired', 'waived');
INSERT INTO signoff_rule (run_id, digest, approvals, not_launcher, every_tier, allow_record, allow_partial, signers_checked)
SELECT run_id, '', CASE fault WHEN 'rules' THEN 1 ELSE 2 END, true, false, false, false, fault <> 'unchecked' FROM fault;
INSERT INTO signoff_item SELECT run_id, 0, unnest(['role', 'checklist', 'calibrated']), 1, unnest(['performance', 'deck read', 'throughput']) FROM fault;
INSERT INTO signoff_item SELECT f.run_id, s.seq, 'confirmed', 1, 'deck read' FROM fault f, (VALUES (1), (2)) s(seq);
INSERT INTO signoff_item SELECT run_id, 2, 'condition', 1, 'rerun after the fix' FROM fault WHERE fault = 'conditional';
INSERT INTO signoff (run_id, seq, line_sha256, decision, role, identity, key, signed_at, failed, waived, vacuous)
SELECT f.run_id, s.seq, '', CASE WHEN s.seq = 2 AND f.fault IN ('rejected', 'conditional') THEN replace(replace(f.fault, 'rejected', 'reject'), 'conditional', 'conditional') ELSE 'approve' END,
       'performance', s.who, s.who, TIMESTAMP '2026-09-19', 0, 0, 0
FROM fault f, (VALUES (1, 'alice'), (2, 'bob')) s(seq, who) WHERE f.fault <> 'unsigned';
INSERT INTO signoff_finding SELECT run_id, 1, 2, 'stale', 'evidence', 'results.json changed' FROM fault WHERE fault = 'stale';
