-- history: every value of every comparable series in time, each measurement once.
-- grain: series_id, cell_key, slot, metric, run_id
-- reads: cell_run, run_identity, measurement, metric_def
-- unit:  as the metric
-- A series is one identity (run_identity.identity). Measurements published again
-- are left out; unhealthy ones are in it and marked.
CREATE OR REPLACE VIEW history AS
SELECT c.identity AS series_id, c.cell_key, c.slot, m.metric, d.unit, d.direction, d.ordinal AS metric_ordinal, c.run_id, c.started_at, c.sequence,
       m.value, m.low, m.high, m.repeats, c.healthy, i.image, i.version, i.source, c.host
FROM cell_run c
JOIN measurement m ON m.run_id = c.run_id AND m.cell_key = c.cell_key AND m.host = c.host
JOIN metric_def d ON d.name = m.metric
JOIN run_identity i ON i.run_id = c.run_id
WHERE NOT c.repeated AND c.started_at IS NOT NULL AND m.value IS NOT NULL;
COMMENT ON VIEW history IS 'Every value of every comparable series in time, each measurement once; one row per series, cell, slot, metric and run';
COMMENT ON COLUMN history.series_id IS 'the identity that its runs share';
COMMENT ON COLUMN history.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN history.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN history.metric IS 'name in metric_def';
COMMENT ON COLUMN history.unit IS 'unit of the values';
COMMENT ON COLUMN history.direction IS 'higher, lower or neutral: which way is better';
COMMENT ON COLUMN history.metric_ordinal IS 'display order';
COMMENT ON COLUMN history.run_id IS 'run';
COMMENT ON COLUMN history.started_at IS 'start of the run, UTC';
COMMENT ON COLUMN history.sequence IS 'order in time; ties by run id';
COMMENT ON COLUMN history.value IS 'the number';
COMMENT ON COLUMN history.low IS 'smallest of the repeats';
COMMENT ON COLUMN history.high IS 'largest of the repeats';
COMMENT ON COLUMN history.repeats IS 'benchmarks combined by their median';
COMMENT ON COLUMN history.healthy IS 'fewer than 1 % of the requests failed, or nobody counted';
COMMENT ON COLUMN history.image IS 'container image of the run';
COMMENT ON COLUMN history.version IS 'version of the measured software where the source states it';
COMMENT ON COLUMN history.source IS 'where it was published, e.g. the id of a CI run';
COMMENT ON COLUMN history.host IS 'node the file came from, empty if unknown';
