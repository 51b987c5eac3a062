-- earlier_run: the comparable runs before each run, at most 40: its past.
-- grain: run_id, earlier
-- reads: run_identity
-- unit:  none
CREATE OR REPLACE VIEW earlier_run AS
WITH r AS (
    SELECT run_id, identity, sequence FROM run_identity WHERE started_at IS NOT NULL
)
SELECT r.run_id, p.run_id AS earlier
FROM r JOIN r AS p ON p.identity = r.identity AND p.sequence < r.sequence
QUALIFY row_number() OVER (PARTITION BY r.run_id ORDER BY p.sequence DESC) <= 40;
COMMENT ON VIEW earlier_run IS 'The comparable runs before each run, the last 40 of them; one row per run and earlier run';
COMMENT ON COLUMN earlier_run.run_id IS 'run';
COMMENT ON COLUMN earlier_run.earlier IS 'a run of equal identity that started before it';
