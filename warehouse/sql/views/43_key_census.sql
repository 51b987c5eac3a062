-- key_census: what result files hold, key by key, and how often: what a client has
-- added, dropped or renamed shows here first.
-- grain: format, key, kind
-- reads: raw_value, sample, run
-- unit:  none; first_seen and last_seen are UTC
CREATE OR REPLACE VIEW key_census AS
SELECT s.format, v.parent || '/' || v.key AS key, v.kind, max(v.metric) AS metric, count(*) AS samples, count(DISTINCT v.run_id) AS runs,
       min(r.started_at) AS first_seen, max(r.started_at) AS last_seen
FROM raw_value v
JOIN sample s ON s.run_id = v.run_id AND s.sample_no = v.sample_no
JOIN run r ON r.run_id = v.run_id
WHERE s.role = 'cell'
GROUP BY s.format, v.parent, v.key, v.kind;
COMMENT ON VIEW key_census IS 'What result files hold, key by key, known to us or not; one row per format, key and kind of value';
COMMENT ON COLUMN key_census.format IS 'format recognised';
COMMENT ON COLUMN key_census.key IS 'JSON pointer of the key in the benchmark, not escaped';
COMMENT ON COLUMN key_census.kind IS 'null, boolean, number, string, list, object';
COMMENT ON COLUMN key_census.metric IS 'our name, NULL if the key means none of ours';
COMMENT ON COLUMN key_census.samples IS 'benchmarks that hold it';
COMMENT ON COLUMN key_census.runs IS 'runs that hold it';
COMMENT ON COLUMN key_census.first_seen IS 'start of the first of them, UTC; NULL if none states one';
COMMENT ON COLUMN key_census.last_seen IS 'start of the last of them, UTC';
