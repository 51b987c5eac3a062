-- compared_runs: the runs that a run may be compared with: more than any view
-- about it needs, few among many.
-- grain: run_id
-- reads: run_identity, cell_result, baseline
-- unit:  none
-- This judges nothing. Views that compare runs say the same of this_run if they
-- are asked of these runs alone, which is how it is found in a long history
-- without reading all of it; a view that looks further back has to be given more
-- here. These are: the run; runs published twice; the 40 before it (view earlier_run);
-- of each cell the latest before it, healthy or not (prev_run); the same on one
-- node (scaling); what is pinned (golden); the nearest of each other framework
-- (framework_parity).
CREATE OR REPLACE MACRO compared_runs(this_run) AS TABLE
WITH me AS (
    SELECT *, concat_ws(' · ', driver, model, precision, gpu, simulated) AS who FROM run_identity WHERE run_id = this_run
), i AS MATERIALIZED (
    SELECT i.run_id, i.driver, i.sequence, i.identity = me.identity AS same, i.parity = me.parity AND i.driver <> me.driver AS other,
           i.sequence < me.sequence AND (i.identity = me.identity OR i.nnodes = 1 AND me.nnodes > 1) AS before,
           abs(date_diff('millisecond', me.started_at, i.started_at)) AS away, hash(i.identity, i.origin) AS measurement
    FROM run_identity i, me
    WHERE i.parity = me.parity OR concat_ws(' · ', i.driver, i.model, i.precision, i.gpu, i.simulated) = me.who
), twice AS (
    SELECT i.run_id FROM i SEMI JOIN (SELECT measurement FROM i GROUP BY measurement HAVING count(*) > 1) s ON s.measurement = i.measurement
), measured AS (
    SELECT arg_max(i.run_id, i.sequence) AS run_id
    FROM i ANTI JOIN twice t ON t.run_id = i.run_id JOIN cell_result c ON c.run_id = i.run_id
    WHERE i.before
    GROUP BY i.same, c.cell_key, CASE WHEN c.hosts > 1 THEN c.host ELSE '' END, coalesce(c.success_rate >= 0.99, true)
), nearest AS (
    SELECT run_id FROM i WHERE other AND away IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY driver ORDER BY away, run_id) = 1
)
SELECT m.run_id FROM me m
UNION SELECT t.run_id FROM twice t
UNION (SELECT run_id FROM i WHERE before AND same ORDER BY sequence DESC LIMIT 40)
UNION SELECT run_id FROM measured
UNION SELECT b.run_id FROM baseline b
UNION SELECT run_id FROM nearest;
COMMENT ON MACRO TABLE compared_runs IS 'The runs that the views need of all runs to compare one with others; some more among them. this_run: run id';
