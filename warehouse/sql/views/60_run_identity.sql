-- run_identity: what two runs must share to be compared, and what merely may
-- differ between them.
-- grain: run_id
-- reads: run, run_origin
-- unit:  times are UTC
-- identity: driver, model, precision, GPU really seen (else as configured), TP,
-- PP, DP, nodes, simulated or real. What is not known is "?" and equals only
-- itself. parity is the same without the driver. The shape of the workload is in
-- the cell key. Host and image are no part of it: they are shown as changes.
CREATE OR REPLACE VIEW run_identity AS
WITH r AS (
    SELECT r.run_id, r.started_at, r.model, r.precision, coalesce(o.gpu, lower(r.gpu_arch_stated)) AS gpu, r.gpu_confirmed, r.driver, r.tp, r.pp, r.dp, r.nnodes,
           r.simulated, r.image, r.hosts, coalesce(o.origin, 'run ' || r.run_id) AS origin, o.source, o.version,
           concat_ws(' · ', coalesce(r.model, '?'), coalesce(r.precision, '?'), coalesce(o.gpu, lower(r.gpu_arch_stated), '?'),
               'TP=' || coalesce(nullif(r.tp, 0)::VARCHAR, '?'), 'PP=' || coalesce(nullif(r.pp, 0), 1), 'DP=' || coalesce(nullif(r.dp, 0), 1),
               'nodes=' || coalesce(nullif(r.nnodes, 0), 1), CASE WHEN r.simulated THEN 'simulated' ELSE 'real' END) AS parity
    FROM run r LEFT JOIN run_origin o ON o.run_id = r.run_id
)
SELECT run_id, started_at, coalesce(driver, '?') || ' · ' || parity AS identity, parity, model, precision, gpu, gpu_confirmed, driver, tp, pp, dp, nnodes, simulated,
       image, hosts, origin, source, version,
       started_at::VARCHAR || ' ' || run_id AS sequence
FROM r;
COMMENT ON VIEW run_identity IS 'What two runs must share to be compared; one row per run';
COMMENT ON COLUMN run_identity.run_id IS 'run';
COMMENT ON COLUMN run_identity.started_at IS 'start, UTC; NULL: never ordered, never compared by itself';
COMMENT ON COLUMN run_identity.identity IS 'equal for runs that may be compared: driver, model, precision, GPU, TP, PP, DP, nodes, simulated or real';
COMMENT ON COLUMN run_identity.parity IS 'the same without the driver';
COMMENT ON COLUMN run_identity.model IS 'model id as configured';
COMMENT ON COLUMN run_identity.precision IS 'precision as configured';
COMMENT ON COLUMN run_identity.gpu IS 'accelerator really seen, else as configured, in lower case';
COMMENT ON COLUMN run_identity.gpu_confirmed IS 'true: the node reported it';
COMMENT ON COLUMN run_identity.driver IS 'atom, vllm_atom, vllm, sglang';
COMMENT ON COLUMN run_identity.tp IS 'tensor parallel size';
COMMENT ON COLUMN run_identity.pp IS 'pipeline parallel size';
COMMENT ON COLUMN run_identity.dp IS 'data parallel size';
COMMENT ON COLUMN run_identity.nnodes IS 'nodes';
COMMENT ON COLUMN run_identity.simulated IS 'true: the lab, not hardware';
COMMENT ON COLUMN run_identity.image IS 'container image';
COMMENT ON COLUMN run_identity.hosts IS 'hosts, head first, as a JSON list';
COMMENT ON COLUMN run_identity.origin IS 'runs of one origin are one measurement, however often published';
COMMENT ON COLUMN run_identity.source IS 'where it was published, e.g. the id of a CI run';
COMMENT ON COLUMN run_identity.version IS 'version of the measured software where the source states it';
COMMENT ON COLUMN run_identity.sequence IS 'order in time; ties by run id';
