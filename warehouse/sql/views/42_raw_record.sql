-- raw_record: each benchmark as it was written, key for key.
-- grain: run_id, sample_no
-- reads: raw_value, sample
-- unit:  none; json is text, because NaN and Infinity may stand in it
-- Values longer than 1 MiB are not in it: their hash is, in raw_value.
CREATE OR REPLACE VIEW raw_record AS
SELECT s.run_id, s.sample_no, any_value(s.path) AS path, any_value(s.line) AS line, any_value(s.cell_key) AS cell_key, any_value(s.format) AS format,
       '{' || string_agg(to_json(v.key)::VARCHAR || ': ' || coalesce(v.raw, '{"sha256": "' || v.sha256 || '", "bytes": ' || v.bytes || '}'), ', ' ORDER BY v.ordinal) || '}' AS json
FROM sample s
JOIN raw_value v ON v.run_id = s.run_id AND v.sample_no = s.sample_no
WHERE v.parent = ''
GROUP BY s.run_id, s.sample_no;
COMMENT ON VIEW raw_record IS 'Each benchmark as it was written, key for key; one row per run and sample';
COMMENT ON COLUMN raw_record.run_id IS 'run';
COMMENT ON COLUMN raw_record.sample_no IS 'benchmark within the run, from 1';
COMMENT ON COLUMN raw_record.path IS 'raw file, relative to the run directory';
COMMENT ON COLUMN raw_record.line IS 'line of the file where it starts';
COMMENT ON COLUMN raw_record.cell_key IS 'cell it was assigned to, NULL if none';
COMMENT ON COLUMN raw_record.format IS 'format recognised';
COMMENT ON COLUMN raw_record.json IS 'the object as written; a value above 1 MiB is replaced by its hash and length';
