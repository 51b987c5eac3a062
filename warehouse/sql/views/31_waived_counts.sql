-- waived_counts: how many of a run's failures are waived on a day.
-- grain: run_id
-- reads: run_status, gate_waivers
-- unit:  counts of gates
-- day is a DATE, UTC. fail and invalid of run_status stay what they are: a waived
-- failure is counted apart, is a part of failed and never of pass.
CREATE OR REPLACE MACRO waived_counts(day) AS TABLE
WITH f AS (
    SELECT run_id, count(*) AS waived FROM (
        SELECT DISTINCT run_id, cell_key, task_id, host, metric, ordinal FROM gate_waivers(day) WHERE standing = 'waived'
    ) GROUP BY run_id
)
SELECT s.run_id, (s.fail + s.invalid)::INTEGER AS failed, coalesce(f.waived, 0)::INTEGER AS waived,
       (s.fail + s.invalid - coalesce(f.waived, 0))::INTEGER AS not_waived
FROM run_status s LEFT JOIN f ON f.run_id = s.run_id;
COMMENT ON MACRO TABLE waived_counts IS 'How many of a run''s failures are waived on a day; one row per run. day: DATE, UTC';
