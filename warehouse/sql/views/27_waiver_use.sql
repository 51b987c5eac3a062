-- waiver_use: each waiver of each run in one line, those that match nothing too.
-- grain: run_id, waiver_id
-- reads: waiver, gate_waivers
-- unit:  counts of gates
-- day is a DATE, UTC. One that is over is expired even if nothing needs it now.
CREATE OR REPLACE MACRO waiver_use(day) AS TABLE
SELECT w.run_id, w.waiver_id, any_value(w.last_day) AS last_day, any_value(w.owner) AS owner, any_value(w.issue) AS issue, any_value(w.reason) AS reason,
       any_value(CASE WHEN w.task IS NOT NULL THEN 'task ' || w.task ELSE 'cell ' || w.cell END || ', metric ' || w.metric) AS target,
       count(*) FILTER (WHERE u.standing = 'waived')::INTEGER AS waived, count(*) FILTER (WHERE u.standing = 'expired')::INTEGER AS expired,
       count(*) FILTER (WHERE u.standing = 'outside')::INTEGER AS outside, count(*) FILTER (WHERE u.standing = 'passing')::INTEGER AS passing,
       CASE WHEN count(u.standing) = 0 THEN 'unmatched'
            WHEN count(*) FILTER (WHERE u.standing = 'waived') > 0 THEN 'in use'
            WHEN count(*) FILTER (WHERE u.standing = 'expired') > 0 THEN 'expired'
            WHEN count(*) FILTER (WHERE u.standing = 'outside') > 0 THEN 'outside'
            ELSE 'remove' END AS remark,
       any_value(w.line) AS line
FROM waiver w LEFT JOIN gate_waivers(day) u ON u.run_id = w.run_id AND u.waiver_id = w.waiver_id
GROUP BY w.run_id, w.waiver_id;
COMMENT ON MACRO TABLE waiver_use IS 'Each waiver of each run and whether it is used on a day, those that match nothing too; one row per run and waiver. day: DATE, UTC';
