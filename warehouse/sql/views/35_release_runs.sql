-- release_runs: what a release candidate is made of: what was run, when, how it was
-- judged and how much of it is calibrated.
-- grain: run_id
-- reads: run, run_status, calibration, signoff
-- unit:  counts of gates, tiers and decisions
-- Whether a decision still holds is a question of the day: see signoff_state.
CREATE OR REPLACE VIEW release_runs AS
WITH k AS (
    SELECT run_id, sum(judged)::INTEGER AS judged, sum(calibrated)::INTEGER AS calibrated,
           count(*) FILTER (WHERE wholly_vacuous)::INTEGER AS vacuous_tiers,
           string_agg(tier || ' of ' || coalesce(nullif(cell_id, ''), cell_key), chr(10) ORDER BY cell_ordinal, tier) FILTER (WHERE wholly_vacuous) AS vacuous_list
    FROM calibration GROUP BY run_id
), l AS (
    SELECT run_id, arg_max(decision, seq) AS last_decision, arg_max(identity, seq) AS last_identity, max(seq)::INTEGER AS decisions
    FROM signoff GROUP BY run_id
)
SELECT r.run_id, r.model, r.driver, r.gpu_arch, r.precision, r.profile, r.tp, r.nnodes, r.started_at, r.simulated,
       s.headline, s.incomplete, (s.pass + s.fail + s.invalid)::INTEGER AS gates, (s.fail + s.invalid)::INTEGER AS failed, (s.cells_error + s.tasks_error)::INTEGER AS missing,
       coalesce(k.judged, 0) AS judged, coalesce(k.calibrated, 0) AS calibrated, coalesce(k.vacuous_tiers, 0) AS vacuous_tiers, k.vacuous_list,
       coalesce(l.decisions, 0) AS decisions, l.last_decision, l.last_identity
FROM run r JOIN run_status s ON s.run_id = r.run_id LEFT JOIN k ON k.run_id = r.run_id LEFT JOIN l ON l.run_id = r.run_id;
COMMENT ON VIEW release_runs IS 'What a release candidate is made of; one row per run';
COMMENT ON COLUMN release_runs.run_id IS 'run';
COMMENT ON COLUMN release_runs.model IS 'model';
COMMENT ON COLUMN release_runs.driver IS 'atom, vllm_atom, vllm, sglang';
COMMENT ON COLUMN release_runs.gpu_arch IS 'GPU architecture; NULL if the node contradicts it';
COMMENT ON COLUMN release_runs.precision IS 'precision of the weights';
COMMENT ON COLUMN release_runs.profile IS 'profile of the config';
COMMENT ON COLUMN release_runs.tp IS 'tensor parallel size';
COMMENT ON COLUMN release_runs.nnodes IS 'nodes';
COMMENT ON COLUMN release_runs.started_at IS 'UTC';
COMMENT ON COLUMN release_runs.simulated IS 'true: the lab, not hardware';
COMMENT ON COLUMN release_runs.headline IS 'FAIL, INCOMPLETE, PASS or RECORD';
COMMENT ON COLUMN release_runs.incomplete IS 'true: something planned has no result';
COMMENT ON COLUMN release_runs.gates IS 'gates that hold or do not';
COMMENT ON COLUMN release_runs.failed IS 'of them, failed or invalid, waived ones included';
COMMENT ON COLUMN release_runs.missing IS 'planned cells and tasks without a result';
COMMENT ON COLUMN release_runs.judged IS 'gates of cells in state pass, fail or invalid';
COMMENT ON COLUMN release_runs.calibrated IS 'of them, those that can fail';
COMMENT ON COLUMN release_runs.vacuous_tiers IS 'tiers of cells none of whose gates can fail';
COMMENT ON COLUMN release_runs.vacuous_list IS 'these, one a line';
COMMENT ON COLUMN release_runs.decisions IS 'decisions in the log';
COMMENT ON COLUMN release_runs.last_decision IS 'approve, reject or conditional';
COMMENT ON COLUMN release_runs.last_identity IS 'who took it';
