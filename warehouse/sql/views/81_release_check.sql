-- release_check: may this release ship? Each requirement of a policy with the run
-- that is taken for it, and the release as a whole.
-- grain: scope, ordinal
-- reads: release_policy, release_runs, signoff_state, signoff_block, signoff_rule, signoff_item
-- unit:  counts of gates
-- policy is JSON, a whole policy file; runs a list of run ids, NULL for all of the
-- warehouse; moment a TIMESTAMP, UTC. scope: release (one row), requirement, unused (a
-- run that was offered and that no requirement asks for; no verdict). For each
-- requirement the newest run that fits counts, whatever an older one said: a bad
-- result is not replaced by a good one that came before it. verdict: READY,
-- CONDITIONAL or BLOCKED, that of the release the worst of its requirements;
-- missing evidence blocks. exit_code: 0 ready, 3 no such run, else 1. reasons holds
-- one sentence a line.
CREATE OR REPLACE MACRO release_check(policy, runs, moment) AS TABLE
WITH need AS MATERIALIZED (
    SELECT *, concat_ws(', ', 'model ' || model, 'driver ' || driver, 'gpu_arch ' || gpu_arch, 'precision ' || precision, 'profile ' || profile,
                              'nnodes ' || nnodes, 'tp ' || tp) AS wants
    FROM release_policy(policy)
), offered AS MATERIALIZED (
    SELECT *, coalesce(list_position(runs::VARCHAR[], run_id), 0) AS place FROM release_runs
    WHERE runs IS NULL OR list_contains(runs::VARCHAR[], run_id)
), fit AS MATERIALIZED (
    SELECT n.ordinal, o.run_id, row_number() OVER (PARTITION BY n.ordinal ORDER BY o.started_at DESC NULLS LAST, o.place, o.run_id) AS nth
    FROM need n JOIN offered o
      ON (n.model IS NULL OR coalesce(o.model, '') GLOB glob_pattern(n.model)) AND (n.driver IS NULL OR coalesce(o.driver, '') GLOB glob_pattern(n.driver))
     AND (n.gpu_arch IS NULL OR coalesce(o.gpu_arch, '') GLOB glob_pattern(n.gpu_arch)) AND (n.precision IS NULL OR coalesce(o.precision, '') GLOB glob_pattern(n.precision))
     AND (n.profile IS NULL OR coalesce(o.profile, '') GLOB glob_pattern(n.profile)) AND (n.nnodes IS NULL OR coalesce(o.nnodes, 0) = n.nnodes)
     AND (n.tp IS NULL OR coalesce(o.tp, 0) = n.tp)
), state AS MATERIALIZED (
    SELECT * FROM signoff_state(moment::TIMESTAMP::DATE) WHERE run_id IN (SELECT run_id FROM fit WHERE nth = 1)
), taken AS MATERIALIZED (
    SELECT n.*, o.run_id, o.started_at, o.simulated, o.judged, o.calibrated AS can_fail, s.state, s.waived, s.reasons AS state_reasons,
           epoch_us(moment::TIMESTAMP) - epoch_us(o.started_at) AS age_us
    FROM need n LEFT JOIN fit f ON f.ordinal = n.ordinal AND f.nth = 1
    LEFT JOIN offered o ON o.run_id = f.run_id LEFT JOIN state s ON s.run_id = f.run_id
), rule AS (
    SELECT r.run_id, r.approvals, r.not_launcher, r.every_tier, r.allow_record, r.allow_partial, r.signers_checked,
           coalesce(list(i.text ORDER BY i.ordinal) FILTER (WHERE i.kind = 'role'), []) AS roles,
           coalesce(list(i.text ORDER BY i.ordinal) FILTER (WHERE i.kind = 'checklist'), []) AS checklist
    FROM signoff_rule r LEFT JOIN signoff_item i ON i.run_id = r.run_id AND i.seq = 0
    GROUP BY ALL
), why AS (
    SELECT ordinal, 0 AS part, 0 AS sub, 'BLOCKED' AS verdict, 'no run with ' || wants AS reason FROM taken WHERE run_id IS NULL
    UNION ALL
    SELECT t.ordinal, 1, b.ordinal, 'BLOCKED', b.reason
    FROM taken t JOIN signoff_block(moment::TIMESTAMP::DATE) b ON b.run_id = t.run_id
    WHERE CASE b.class WHEN 'missing' THEN NOT t.allow_incomplete WHEN 'record' THEN NOT t.allow_record
                       WHEN 'vacuous' THEN t.calibrated IS NULL OR list_contains(t.calibrated, b.tier) ELSE true END
    UNION ALL
    SELECT ordinal, 2, 0, CASE WHEN allow_waived THEN 'READY' ELSE 'BLOCKED' END,
           waived || CASE WHEN allow_waived THEN ' failed gate(s) are waived; they remain failures' ELSE ' failed gate(s) are waived; the policy accepts none' END
    FROM taken WHERE waived > 0
    UNION ALL
    SELECT ordinal, 3, 0, 'BLOCKED', 'the run is simulated' FROM taken WHERE simulated AND NOT allow_simulated
    UNION ALL
    SELECT ordinal, 4, 0, 'BLOCKED',
           CASE WHEN started_at IS NULL THEN 'the run states no start, so its age is unknown; at most ' || max_age_days || ' days are accepted'
                WHEN age_us > 0 THEN 'the run is ' || printf('%.1f', age_us / 86400e6) || ' days old, at most ' || max_age_days || ' are accepted'
                ELSE 'the run starts in the future: ' || strftime(started_at, '%Y-%m-%dT%H:%M:%SZ') END
    FROM taken
    WHERE run_id IS NOT NULL AND max_age_days IS NOT NULL
      AND (age_us IS NULL OR age_us > max_age_days * 86400000000 OR age_us < -3600000000) -- clocks differ a little, not by an hour
    UNION ALL
    SELECT ordinal, 5, 0, CASE state WHEN 'approved' THEN 'READY' WHEN 'conditional' THEN 'CONDITIONAL' ELSE 'BLOCKED' END,
           CASE WHEN state = 'conditional' THEN state_reasons ELSE 'sign-off: ' || concat_ws(': ', state, nullif(replace(state_reasons, chr(10), ': '), '')) END
    FROM taken WHERE need_signoff AND state <> 'approved'
    UNION ALL
    SELECT t.ordinal, 6, 0, 'BLOCKED',
           CASE WHEN NOT r.signers_checked THEN 'sign-off: the signers were not checked, so nobody is known'
                ELSE 'sign-off: the decisions were held against rules other than this policy''s' END
    FROM taken t JOIN rule r ON r.run_id = t.run_id
    WHERE t.need_signoff AND t.state IN ('approved', 'conditional')
      AND (NOT r.signers_checked OR (r.approvals, r.not_launcher, r.roles, r.checklist) IS DISTINCT FROM (t.approvals, t.not_launcher, t.roles, t.checklist))
), said AS (
    SELECT ordinal, max(CASE verdict WHEN 'BLOCKED' THEN 2 WHEN 'CONDITIONAL' THEN 1 ELSE 0 END) AS bad, string_agg(nullif(reason, ''), chr(10) ORDER BY part, sub) AS reasons
    FROM why GROUP BY ordinal
), line AS (
    SELECT t.*, coalesce(s.bad, 0) AS bad, coalesce(s.reasons, '') AS reasons,
           CASE coalesce(s.bad, 0) WHEN 0 THEN 'READY' WHEN 1 THEN 'CONDITIONAL' ELSE 'BLOCKED' END AS verdict,
           CASE WHEN t.run_id IS NULL THEN 3 WHEN coalesce(s.bad, 0) > 0 THEN 1 ELSE 0 END AS exit_code
    FROM taken t LEFT JOIN said s ON s.ordinal = t.ordinal
)
SELECT 'requirement' AS scope, ordinal, name, wants, coalesce(run_id, '') AS run_id, verdict, reasons, coalesce(state, '') AS signoff,
       coalesce(judged, 0)::INTEGER AS gates, coalesce(can_fail, 0)::INTEGER AS calibrated, coalesce(waived, 0)::INTEGER AS waived, exit_code
FROM line
UNION ALL
SELECT 'release', 0, any_value(title), count(*) || ' requirement(s)', '', CASE max(bad) WHEN 0 THEN 'READY' WHEN 1 THEN 'CONDITIONAL' ELSE 'BLOCKED' END,
       coalesce(string_agg(name || ': ' || verdict, chr(10) ORDER BY ordinal) FILTER (WHERE bad > 0), ''), '',
       coalesce(sum(judged), 0)::INTEGER, coalesce(sum(can_fail), 0)::INTEGER, coalesce(sum(waived), 0)::INTEGER, max(exit_code)
FROM line
UNION ALL
SELECT 'unused', row_number() OVER (ORDER BY o.place, o.run_id)::INTEGER, o.run_id, '', o.run_id, NULL, 'no requirement asks for it', '', o.judged, o.calibrated, 0, 0
FROM offered o ANTI JOIN fit f ON f.run_id = o.run_id
WHERE runs IS NOT NULL;
COMMENT ON MACRO TABLE release_check IS 'May this release ship? Each requirement of a policy with the run that is taken for it and what stands against it, then the release as a whole. policy: JSON, a whole policy file; runs: list of run ids, NULL for all; moment: TIMESTAMP, UTC';
