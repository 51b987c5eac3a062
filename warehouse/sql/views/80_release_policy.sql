-- release_policy: the text of a policy file as rows, with every default filled in.
-- grain: ordinal (one requirement)
-- reads: nothing
-- unit:  ages in days
-- policy is JSON, a whole policy file. A requirement's own limit or tiers stand in
-- place of the policy's; calibrated NULL means every tier. What is not known or
-- not of its type is an error, never left out: a misspelt rule would otherwise be
-- one rule less. Keys that start with _ are comments.
CREATE OR REPLACE MACRO release_policy(policy) AS TABLE
WITH doc AS MATERIALIZED (
    SELECT policy::JSON AS p
), said AS (
    SELECT '' AS part, key, type FROM json_each(policy::JSON)
    UNION ALL SELECT 'signoff', key, type FROM json_each(policy::JSON, '$.signoff')
    UNION ALL SELECT 'release', key, type FROM json_each(policy::JSON, '$.release')
    UNION ALL SELECT 'require', e.key, e.type FROM json_each(policy::JSON, '$.release.require') r, json_each(r.value) e
    UNION ALL SELECT 'texts', 'calibrated', e.type FROM json_each(policy::JSON, '$.release.require') r, json_each(r.value, '$.calibrated') e
    UNION ALL SELECT 'texts', 'calibrated', type FROM json_each(policy::JSON, '$.signoff.calibrated')
), known(part, key, type) AS (
    VALUES ('', 'format', 'VARCHAR'), ('', 'title', 'VARCHAR'), ('', 'signoff', 'OBJECT'), ('', 'release', 'OBJECT'),
           ('signoff', 'approvals', 'UBIGINT'), ('signoff', 'roles', 'ARRAY'), ('signoff', 'checklist', 'ARRAY'), ('signoff', 'not_launcher', 'BOOLEAN'),
           ('signoff', 'calibrated', 'ARRAY'), ('signoff', 'allow_record', 'BOOLEAN'), ('signoff', 'allow_incomplete', 'BOOLEAN'),
           ('release', 'require', 'ARRAY'), ('release', 'max_age_days', 'UBIGINT'), ('release', 'allow_simulated', 'BOOLEAN'),
           ('release', 'need_signoff', 'BOOLEAN'), ('release', 'allow_waived', 'BOOLEAN'),
           ('require', 'name', 'VARCHAR'), ('require', 'model', 'VARCHAR'), ('require', 'driver', 'VARCHAR'), ('require', 'gpu_arch', 'VARCHAR'),
           ('require', 'precision', 'VARCHAR'), ('require', 'profile', 'VARCHAR'), ('require', 'nnodes', 'UBIGINT'), ('require', 'tp', 'UBIGINT'),
           ('require', 'max_age_days', 'UBIGINT'), ('require', 'calibrated', 'ARRAY'), ('texts', 'calibrated', 'VARCHAR')
), wrong AS (
    SELECT string_agg(DISTINCT concat_ws('.', nullif(s.part, ''), s.key) || coalesce(' is not ' || k.type, ' is not known'), ', ' ORDER BY concat_ws('.', nullif(s.part, ''), s.key) || coalesce(' is not ' || k.type, ' is not known')) AS what
    FROM said s LEFT JOIN known k ON k.part = s.part AND k.key = s.key
    WHERE NOT starts_with(s.key, '_') AND s.type IS DISTINCT FROM k.type
), need AS (
    SELECT row_number() OVER (ORDER BY r.id)::INTEGER AS ordinal, r.value AS v FROM json_each(policy::JSON, '$.release.require') r
)
SELECT n.ordinal, coalesce(d.p->>'$.title', '') AS title, coalesce(n.v->>'$.name', '') AS name,
       nullif(n.v->>'$.model', '') AS model, nullif(n.v->>'$.driver', '') AS driver, nullif(n.v->>'$.gpu_arch', '') AS gpu_arch,
       nullif(n.v->>'$.precision', '') AS precision, nullif(n.v->>'$.profile', '') AS profile,
       (n.v->>'$.nnodes')::INTEGER AS nnodes, (n.v->>'$.tp')::INTEGER AS tp,
       coalesce(n.v->>'$.max_age_days', d.p->>'$.release.max_age_days')::INTEGER AS max_age_days,
       coalesce(n.v->'$.calibrated', d.p->'$.signoff.calibrated')::VARCHAR[] AS calibrated,
       coalesce((d.p->>'$.release.allow_simulated')::BOOLEAN, false) AS allow_simulated,
       coalesce((d.p->>'$.release.need_signoff')::BOOLEAN, false) AS need_signoff,
       coalesce((d.p->>'$.release.allow_waived')::BOOLEAN, false) AS allow_waived,
       coalesce((d.p->>'$.signoff.allow_record')::BOOLEAN, false) AS allow_record,
       coalesce((d.p->>'$.signoff.allow_incomplete')::BOOLEAN, false) AS allow_incomplete,
       coalesce((d.p->>'$.signoff.not_launcher')::BOOLEAN, false) AS not_launcher,
       coalesce((d.p->>'$.signoff.approvals')::INTEGER, 1) AS approvals,
       coalesce((d.p->'$.signoff.roles')::VARCHAR[], []) AS roles, coalesce((d.p->'$.signoff.checklist')::VARCHAR[], []) AS checklist
FROM doc d
LEFT JOIN need n ON true
CROSS JOIN wrong w
WHERE CASE WHEN w.what IS NOT NULL THEN error('the policy cannot be used: ' || w.what)
           WHEN n.ordinal IS NULL THEN error('the policy has no release section with requirements: a release that needs nothing is not checked')
           ELSE true END;
COMMENT ON MACRO TABLE release_policy IS 'The text of a policy file as rows, with every default filled in; one row per requirement. policy: JSON';
