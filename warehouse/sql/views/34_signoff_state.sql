-- signoff_state: how the sign-off of each run stands on a day, and why.
-- grain: run_id
-- reads: run, signoff_standing, signoff_block, signoff_finding, signoff_item, signoff_rule, waived_counts
-- unit:  counts of decisions
-- day is a DATE, UTC. state, first that applies: none recorded; tampered (the log
-- was changed after it was written); rejected (stands even when the data changed:
-- only its author lifts it); stale (evidence changed and too few decisions are
-- left); pending (too few, or something stands against the run that did not when it
-- was signed); conditional; approved. reasons holds one sentence a line.
CREATE OR REPLACE MACRO signoff_state(day) AS TABLE
WITH st AS (
    SELECT * FROM signoff_standing(day)
), valid AS (
    SELECT * FROM st WHERE NOT replaced AND problems IS NULL
), n AS (
    SELECT run_id, count(*) FILTER (WHERE decision = 'reject') AS rejects, count(*) FILTER (WHERE decision <> 'reject' AND stale IS NOT NULL) AS stales,
           count(*) FILTER (WHERE decision = 'approve' AND stale IS NULL) AS approves, count(*) FILTER (WHERE decision = 'conditional' AND stale IS NULL) AS conditionals
    FROM valid GROUP BY run_id
), role AS (
    SELECT i.run_id, i.ordinal, i.text, count(v.seq) FILTER (WHERE v.decision = 'approve') AS approves, count(v.seq) AS any_yes
    FROM signoff_item i
    LEFT JOIN valid v ON v.run_id = i.run_id AND v.stale IS NULL AND v.decision IN ('approve', 'conditional') AND lower(v.role) = lower(i.text)
    WHERE i.seq = 0 AND i.kind = 'role' GROUP BY i.run_id, i.ordinal, i.text
), lacking AS (
    SELECT run_id, count(*) FILTER (WHERE any_yes = 0) AS any_yes, count(*) FILTER (WHERE approves = 0) AS approves,
           string_agg('no approval in the role "' || text || '"', chr(10) ORDER BY ordinal) FILTER (WHERE any_yes = 0) AS lines
    FROM role GROUP BY run_id
), f AS (
    SELECT run_id, count(*) AS findings, bool_or(class = 'log') AS tampered, string_agg(message, chr(10) ORDER BY ordinal) AS lines
    FROM signoff_finding WHERE class IN ('log', 'signer', 'input') GROUP BY run_id
), who AS (
    SELECT run_id, count(*) AS entries,
           string_agg('the decision of ' || identity || ' does not count: ' || replace(rules, chr(10), chr(10) || 'the decision of ' || identity || ' does not count: '), chr(10) ORDER BY seq)
               FILTER (WHERE NOT replaced AND rules IS NOT NULL) AS not_counted,
           string_agg(identity || ' (' || role || ') rejects: ' || coalesce(nullif(split_part(trim(note, chr(10) || ' '), chr(10), 1), ''), '(no note)'), chr(10) ORDER BY seq)
               FILTER (WHERE NOT replaced AND problems IS NULL AND decision = 'reject') AS rejecting,
           string_agg('entry ' || seq || ' (' || identity || '): ' || replace(stale, chr(10), chr(10) || 'entry ' || seq || ' (' || identity || '): '), chr(10) ORDER BY seq)
               FILTER (WHERE NOT replaced AND problems IS NULL AND decision <> 'reject' AND stale IS NOT NULL) AS stale,
           string_agg(identity || ' (' || role || ')', ', ' ORDER BY seq) FILTER (WHERE counts AND decision <> 'reject') AS signers,
           arg_max(line_sha256, seq) AS head
    FROM st GROUP BY run_id
), b AS (
    SELECT run_id, count(*) AS blocks, string_agg(reason, chr(10) ORDER BY ordinal) AS lines FROM signoff_block(day) WHERE holds GROUP BY run_id
), c AS (
    SELECT v.run_id, string_agg('condition of ' || v.identity || ': ' || i.text, chr(10) ORDER BY v.seq, i.ordinal) AS lines
    FROM valid v JOIN signoff_item i ON i.run_id = v.run_id AND i.seq = v.seq AND i.kind = 'condition'
    WHERE v.stale IS NULL AND v.decision = 'conditional' GROUP BY v.run_id
), x AS (
    SELECT r.run_id, coalesce(who.entries, 0) AS entries, coalesce(f.findings, 0) AS findings, coalesce(f.tampered, false) AS tampered,
           coalesce(n.rejects, 0) AS rejects, coalesce(n.stales, 0) AS stales, coalesce(n.approves, 0) AS approves, coalesce(n.conditionals, 0) AS conditionals,
           greatest(coalesce(p.approvals, 1), 1) AS want, coalesce(p.signers_checked, false) AS signers_checked,
           coalesce(n.approves, 0) + coalesce(n.conditionals, 0) < greatest(coalesce(p.approvals, 1), 1) OR coalesce(l.any_yes, 0) > 0 AS too_few,
           coalesce(n.approves, 0) < greatest(coalesce(p.approvals, 1), 1) OR coalesce(l.approves, 0) > 0 AS too_few_approve,
           f.lines AS finding_lines, who.not_counted, who.rejecting, who.stale AS stale_lines, who.signers, who.head, l.lines AS role_lines,
           b.lines AS block_lines, coalesce(b.blocks, 0) AS blocks, c.lines AS condition_lines
    FROM run r
    LEFT JOIN signoff_rule p ON p.run_id = r.run_id
    LEFT JOIN n ON n.run_id = r.run_id
    LEFT JOIN lacking l ON l.run_id = r.run_id
    LEFT JOIN f ON f.run_id = r.run_id
    LEFT JOIN who ON who.run_id = r.run_id
    LEFT JOIN b ON b.run_id = r.run_id
    LEFT JOIN c ON c.run_id = r.run_id
), y AS (
    SELECT *, CASE WHEN entries = 0 AND findings = 0 THEN 'none recorded'
                   WHEN tampered THEN 'tampered'
                   WHEN rejects > 0 THEN 'rejected'
                   WHEN stales > 0 AND too_few THEN 'stale'
                   WHEN entries = 0 THEN 'none recorded'
                   WHEN too_few THEN 'pending'
                   WHEN blocks > 0 AND NOT too_few_approve THEN 'pending'
                   WHEN too_few_approve THEN 'conditional'
                   ELSE 'approved' END AS state
    FROM x
)
SELECT y.run_id, y.state,
       concat_ws(chr(10), finding_lines, CASE WHEN state <> 'tampered' THEN not_counted END,
           CASE WHEN state = 'rejected' THEN rejecting END,
           CASE WHEN state NOT IN ('tampered', 'rejected') THEN stale_lines END,
           CASE WHEN state = 'pending' AND approves + conditionals < want THEN (approves + conditionals) || ' of ' || want || ' approvals that count' END,
           CASE WHEN state = 'pending' THEN role_lines END,
           CASE WHEN state = 'pending' AND NOT too_few THEN block_lines END,
           CASE WHEN state = 'conditional' THEN condition_lines END,
           CASE WHEN state = 'approved' AND w.waived > 0 THEN w.waived || ' failed gate(s) are waived; they remain failures' END,
           CASE WHEN entries > 0 AND NOT signers_checked THEN 'the signers were not checked: no allowed-signers file was given' END) AS reasons,
       coalesce(signers, '') AS signers, coalesce(head, '') AS head, entries::INTEGER AS entries, w.failed, w.waived, w.not_waived
FROM y JOIN waived_counts(day) w ON w.run_id = y.run_id;
COMMENT ON MACRO TABLE signoff_state IS 'How the sign-off of each run stands on a day, and why; one row per run. day: DATE, UTC';
