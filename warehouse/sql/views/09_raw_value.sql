-- raw_value: every key of every benchmark, as written.
-- grain: run_id, sample_no, ordinal
-- reads: sample, shape_key, raw_row
-- unit:  as the file has it; number in ours where the file states another
-- The text of a string is what stands between its quotes: one with escapes is not
-- packed but stands in raw_row.
CREATE OR REPLACE VIEW raw_value AS
WITH p AS (
    SELECT run_id, sample_no, shape, generate_subscripts(numbers::DOUBLE[], 1) AS place,
           unnest(numbers::DOUBLE[]) AS number, unnest(string_split(raws, chr(30))) AS raw
    FROM sample WHERE shape IS NOT NULL
)
SELECT p.run_id, p.sample_no, k.ordinal, k.parent, k.key, k.pointer, k.metric, p.number, k.quality,
       CASE k.kind WHEN 'number' THEN p.raw WHEN 'boolean' THEN p.raw WHEN 'string' THEN substr(p.raw, 2, length(p.raw) - 2) END AS text,
       k.kind, p.raw, strlen(p.raw) AS bytes, NULL::VARCHAR AS sha256, k.higher_is_better
FROM p JOIN shape_key k ON k.shape = p.shape AND k.place = p.place
UNION ALL
SELECT run_id, sample_no, ordinal, parent, key, pointer, metric, number, quality, text, kind, raw, bytes, sha256, higher_is_better
FROM raw_row;
COMMENT ON VIEW raw_value IS 'Every key of every benchmark, as written; one row per run, sample and key';
COMMENT ON COLUMN raw_value.run_id IS 'run';
COMMENT ON COLUMN raw_value.sample_no IS 'benchmark within the run, from 1';
COMMENT ON COLUMN raw_value.ordinal IS 'place in the file, from 1';
COMMENT ON COLUMN raw_value.parent IS 'JSON pointer of the object that holds the key, empty: the benchmark itself';
COMMENT ON COLUMN raw_value.key IS 'key as written';
COMMENT ON COLUMN raw_value.pointer IS 'JSON pointer of the value';
COMMENT ON COLUMN raw_value.metric IS 'our name, NULL if the key means none of ours';
COMMENT ON COLUMN raw_value.number IS 'the number, which may be NaN or infinite: quality says so; NULL if it is none';
COMMENT ON COLUMN raw_value.quality IS 'ok, null, non_numeric, non_finite, out_of_range';
COMMENT ON COLUMN raw_value.text IS 'a number, boolean or text as written, NULL for other kinds';
COMMENT ON COLUMN raw_value.kind IS 'null, boolean, number, string, list, object';
COMMENT ON COLUMN raw_value.raw IS 'the JSON as written, NULL above 1 MiB';
COMMENT ON COLUMN raw_value.bytes IS 'its length';
COMMENT ON COLUMN raw_value.sha256 IS 'its hash, where raw is NULL';
COMMENT ON COLUMN raw_value.higher_is_better IS 'which way is better, as lm-eval says, NULL elsewhere';
