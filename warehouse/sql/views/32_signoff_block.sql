-- signoff_block: what stands against approving a run on a day.
-- grain: run_id, class, ordinal (one reason)
-- reads: gates, check_gates, cell_status, run_status, calibration, gate_waivers, signoff_rule, signoff_item
-- unit:  none
-- day is a DATE, UTC. class: failure, expired, outside, missing, record, vacuous.
-- holds says whether the policy of the run counts it; without one all do. absolute:
-- it stands against a conditional decision too, because no condition mends it. An
-- expired waiver stands as soon as a failure would need it.
CREATE OR REPLACE MACRO signoff_block(day) AS TABLE
WITH w AS MATERIALIZED (
    SELECT * FROM gate_waivers(day)
), covered AS (
    SELECT DISTINCT run_id, gate, host, ordinal FROM w WHERE standing = 'waived'
), failed AS (
    SELECT run_id, concat_ws(' ', coalesce(nullif(cell_id, ''), cell_key), metric) AS gate, host, ordinal, reason, cell_ordinal AS place, metric_ordinal AS sub FROM gates WHERE state IN ('fail', 'invalid')
    UNION ALL
    SELECT run_id, concat_ws(' ', coalesce(nullif(target, ''), scope), metric), NULL, ordinal, reason, 1000000, ordinal FROM check_gates WHERE state IN ('fail', 'invalid')
), once AS (
    SELECT *, row_number() OVER (PARTITION BY run_id, waiver_id, standing ORDER BY place, metric_ordinal, host, ordinal) AS n FROM w WHERE standing IN ('expired', 'outside')
), missing AS (
    SELECT run_id, 'cell ' || coalesce(nullif(cell_id, ''), cell_key) || ' has no result: ' || reason AS reason, ordinal FROM cell_status WHERE state = 'error'
    UNION ALL
    SELECT run_id, 'task ' || coalesce(nullif(target, ''), scope) || ' has no result: ' || reason, 1000000 + ordinal FROM check_gates WHERE state = 'error'
), line AS (
    SELECT f.run_id, 'failure' AS class, f.gate || ' fails and is not waived: ' || f.reason AS reason, NULL AS tier,
           row_number() OVER (PARTITION BY f.run_id ORDER BY f.place, f.sub, f.host, f.ordinal) AS ordinal
    FROM failed f LEFT JOIN covered c ON c.run_id = f.run_id AND c.gate = f.gate AND coalesce(c.host, '') = coalesce(f.host, '') AND c.ordinal = f.ordinal
    WHERE c.run_id IS NULL
    UNION ALL
    SELECT run_id, 'expired', 'waiver ' || waiver_id || ' expired on ' || last_day || ': ' || gate || ' fails without it', NULL, line
    FROM once WHERE n = 1 AND standing = 'expired'
    UNION ALL
    SELECT run_id, 'outside', 'waiver ' || waiver_id || ' does not cover ' || gate || ': ' || why, NULL, line FROM once WHERE n = 1 AND standing = 'outside'
    UNION ALL
    SELECT run_id, 'missing', reason, NULL, ordinal FROM missing
    UNION ALL
    SELECT run_id, CASE WHEN incomplete THEN 'missing' ELSE 'record' END,
           CASE WHEN incomplete THEN 'the run is incomplete' ELSE 'the run gates nothing (record): there is nothing to approve' END, NULL, 0
    FROM run_status WHERE headline = 'RECORD' AND NOT incomplete OR incomplete AND cells_error = 0 AND tasks_error = 0
    UNION ALL
    SELECT run_id, 'vacuous', 'tier ' || tier || ' of ' || coalesce(nullif(cell_id, ''), cell_key) || ' is wholly vacuous: none of its gates can fail', tier,
           row_number() OVER (PARTITION BY run_id ORDER BY cell_ordinal, tier)
    FROM calibration WHERE wholly_vacuous
)
SELECT l.run_id, l.class, l.reason, l.tier,
       CASE l.class WHEN 'missing' THEN NOT coalesce(r.allow_partial, false)
                    WHEN 'record' THEN NOT coalesce(r.allow_record, false)
                    WHEN 'vacuous' THEN coalesce(r.every_tier, true) OR i.text IS NOT NULL
                    ELSE true END AS holds,
       l.class IN ('expired', 'vacuous') AS absolute,
       (list_position(['failure', 'expired', 'outside', 'missing', 'record', 'vacuous'], l.class) * 10000000 + l.ordinal)::BIGINT AS ordinal
FROM line l
LEFT JOIN signoff_rule r ON r.run_id = l.run_id
LEFT JOIN signoff_item i ON i.run_id = l.run_id AND i.seq = 0 AND i.kind = 'calibrated' AND i.text = l.tier;
COMMENT ON MACRO TABLE signoff_block IS 'What stands against approving a run on a day; one row per run and reason. day: DATE, UTC';
