-- calibration: per cell and tier, how many of the gates that were judged can
-- fail. A tier of which none can (calibrated = 0) cannot be signed off.
-- grain: run_id, cell_key, tier
-- reads: gates, vacuous
-- unit:  counts of gates
CREATE OR REPLACE VIEW calibration AS
SELECT g.run_id, g.cell_key, any_value(g.cell_id) AS cell_id, any_value(g.cell_ordinal) AS cell_ordinal, g.tier,
       count(*)::INTEGER AS judged, (count(*) - count(v.metric))::INTEGER AS calibrated, count(*) = count(v.metric) AS wholly_vacuous
FROM gates g
LEFT JOIN vacuous v ON v.run_id = g.run_id AND v.cell_key = g.cell_key AND v.host = g.host AND v.metric = g.metric AND v.kind = g.kind
WHERE g.state IN ('pass', 'fail', 'invalid')
GROUP BY g.run_id, g.cell_key, g.tier;
COMMENT ON VIEW calibration IS 'How many of the judged gates can fail; one row per run, cell and tier';
COMMENT ON COLUMN calibration.run_id IS 'run';
COMMENT ON COLUMN calibration.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN calibration.cell_id IS '<combo>-conc<concurrency>';
COMMENT ON COLUMN calibration.cell_ordinal IS 'order of the cell in the plan';
COMMENT ON COLUMN calibration.tier IS 'as in gates';
COMMENT ON COLUMN calibration.judged IS 'gates in state pass, fail or invalid';
COMMENT ON COLUMN calibration.calibrated IS 'of them, those that can fail';
COMMENT ON COLUMN calibration.wholly_vacuous IS 'true: none can fail';
