-- signoff_standing: each decision and whether it still holds on a day.
-- grain: run_id, seq
-- reads: signoff, signoff_waiver, signoff_item, signoff_finding, signoff_rule, run
-- unit:  none
-- day is a DATE, UTC. stale and problems hold one sentence a line, NULL for none.
-- replaced: the same person decided again later; two identities with one key are
-- one person. The decision counts if nothing is said against it.
CREATE OR REPLACE MACRO signoff_standing(day) AS TABLE
WITH s AS (
    SELECT s.run_id, row_number() OVER (PARTITION BY run_id, coalesce(nullif(key, ''), identity) ORDER BY seq DESC) > 1 AS replaced, s.seq, s.decision, s.role, s.identity, s.key,
           s.signed_at, s.line_sha256, s.note
    FROM signoff s
), why AS (
    SELECT run_id, seq, 'stale' AS class, 'evidence' AS code, ordinal, message FROM signoff_finding WHERE class = 'stale'
    UNION ALL
    SELECT w.run_id, w.seq, 'stale', 'expired', 1000000, 'waiver ' || w.waiver_id || ' expired on ' || w.last_day || '; ' || w.gates || ' failed gate(s) stand on it'
    FROM signoff_waiver w JOIN s ON s.run_id = w.run_id AND s.seq = w.seq
    WHERE s.decision <> 'reject' AND day::DATE > w.last_day
    UNION ALL
    SELECT run_id, seq, 'problem', 'signer', ordinal, message FROM signoff_finding WHERE class IN ('log', 'signer') AND seq > 0
    UNION ALL
    SELECT s.run_id, s.seq, 'problem', 'rule', 1000000 + i.ordinal, 'checklist item "' || i.text || '" was not confirmed'
    FROM s JOIN signoff_item i ON i.run_id = s.run_id AND i.seq = 0 AND i.kind = 'checklist'
    ANTI JOIN signoff_item c ON c.run_id = s.run_id AND c.seq = s.seq AND c.kind = 'confirmed' AND c.text = i.text
    WHERE s.decision <> 'reject'
    UNION ALL
    SELECT s.run_id, s.seq, 'problem', 'rule', 2000000, s.identity || ' started the run; the policy wants somebody else'
    FROM s JOIN signoff_rule p ON p.run_id = s.run_id JOIN run r ON r.run_id = s.run_id
    WHERE s.decision <> 'reject' AND p.not_launcher AND r.launcher_user <> '' AND lower(r.launcher_user) IN (lower(s.identity), lower(split_part(s.identity, '@', 1)))
), said AS (
    SELECT run_id, seq, string_agg(message, chr(10) ORDER BY ordinal, message) FILTER (WHERE class = 'stale') AS stale,
           string_agg(message, chr(10) ORDER BY ordinal, message) FILTER (WHERE class = 'problem') AS problems,
           string_agg(message, chr(10) ORDER BY ordinal, message) FILTER (WHERE code = 'rule') AS rules
    FROM why GROUP BY run_id, seq
), note AS (
    SELECT run_id, seq, string_agg(message, chr(10) ORDER BY ordinal) AS notes FROM signoff_finding WHERE class = 'note' GROUP BY run_id, seq
)
SELECT s.run_id, s.seq, s.decision, s.role, s.identity, s.key, s.signed_at, s.line_sha256, s.replaced, x.stale, x.problems, x.rules, n.notes,
       NOT s.replaced AND x.stale IS NULL AND x.problems IS NULL AS counts, s.note
FROM s LEFT JOIN said x ON x.run_id = s.run_id AND x.seq = s.seq LEFT JOIN note n ON n.run_id = s.run_id AND n.seq = s.seq;
COMMENT ON MACRO TABLE signoff_standing IS 'Each decision of a run''s sign-off log and whether it still holds on a day; one row per run and entry. day: DATE, UTC';
