-- vacuous: gates that hold and could not have failed: the bound is a known
-- placeholder, or ten times away from what was measured.
-- grain: run_id, cell_key, host, metric, kind (gates in state pass only)
-- reads: gates
-- unit:  wanted and got in the unit of the metric
-- A bound of 0 at most ("no failed request") is the tightest there is and never
-- one of them.
CREATE OR REPLACE VIEW vacuous AS
SELECT * FROM (
    SELECT run_id, cell_key, cell_id, host, tier, metric, kind, wanted, got, CASE
        WHEN kind IN ('min', 'min_tok_s', 'min_ratio') AND wanted <= 0 THEN 'placeholder: at least ' || num_text(wanted) || ' always holds'
        WHEN kind IN ('min', 'min_tok_s', 'min_ratio') AND coalesce(ratio, got) >= 10 * wanted THEN 'the bound is ' || num_text(round(coalesce(ratio, got) / wanted, 1)) || ' times below what was measured'
        WHEN kind IN ('max', 'max_ms') AND wanted >= 1000000 THEN 'placeholder: at most ' || num_text(wanted)
        WHEN kind IN ('max', 'max_ms') AND got > 0 AND wanted >= 10 * got THEN 'the bound is ' || num_text(round(wanted / got, 1)) || ' times above what was measured'
        WHEN kind = 'within' AND tolerance_pct >= 900 THEN 'a band of ' || num_text(tolerance_pct) || ' per cent'
    END AS why
    FROM gates WHERE state = 'pass' AND kind <> 'info'
) WHERE why IS NOT NULL;
COMMENT ON VIEW vacuous IS 'Gates that hold and could not have failed; one row per run, cell, host, metric and kind';
COMMENT ON COLUMN vacuous.run_id IS 'run';
COMMENT ON COLUMN vacuous.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN vacuous.cell_id IS '<combo>-conc<concurrency>';
COMMENT ON COLUMN vacuous.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN vacuous.tier IS 'as in gates';
COMMENT ON COLUMN vacuous.metric IS 'bare name';
COMMENT ON COLUMN vacuous.kind IS 'as in gates';
COMMENT ON COLUMN vacuous.wanted IS 'value of the spec';
COMMENT ON COLUMN vacuous.got IS 'measured value';
COMMENT ON COLUMN vacuous.why IS 'why it cannot fail';
