-- What every view test starts from: an enforced run r on one node of TP 8 with
-- one cell c of 1024/1024 at concurrency 128, measured by sample 1. Values and
-- specs are added with
--     INSERT INTO raw_row BY NAME FROM val('output_throughput', 2048);
--     INSERT INTO threshold BY NAME FROM spec('output_throughput', 'min', 1500);
INSERT INTO run (run_id, content_sha256, status, enforce, simulated, gpu_confirmed, tp, pp, dp, nnodes, started_at)
VALUES ('r', '', 'done', true, false, true, 8, 1, 1, 1, '2026-09-01 10:00:00');
INSERT INTO expected_cell (run_id, ordinal, cell_key, cell_id, combo, isl, osl, concurrency, num_prompts, repeats, planned)
VALUES ('r', 1, 'c', 'w1-conc128', 'w1', 1024, 1024, 128, 1000, 1, true);
INSERT INTO sample (run_id, sample_no, path, line, role, format, cell_key, repeat, host, usable, digest)
VALUES ('r', 1, 'results.json', 1, 'cell', 'atom_benchmark_serving', 'c', 1, '', true, '');
CREATE TEMP MACRO val(k, n) AS TABLE
    SELECT 'r' AS run_id, 1 AS sample_no, 1 AS ordinal, '' AS parent, k AS key, '/' || k AS pointer,
           (SELECT name FROM metric_def WHERE name = k AND NOT only_derived) AS metric,
           n::DOUBLE AS number, CASE WHEN n IS NULL THEN 'null' WHEN isfinite(n::DOUBLE) THEN 'ok' ELSE 'non_finite' END AS quality,
           n::VARCHAR AS text, CASE WHEN n IS NULL THEN 'null' ELSE 'number' END AS kind, n::VARCHAR AS raw, 1 AS bytes;
CREATE TEMP MACRO spec(m, how, bound) AS TABLE
    SELECT 'r' AS run_id, 1 AS ordinal, 'cell' AS scope, 'c' AS target, m AS metric, how AS kind, bound::DOUBLE AS value;
