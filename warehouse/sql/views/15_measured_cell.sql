-- measured_cell: what must be known of a cell before it may be compared. Table
-- cell_result keeps its answer.
-- grain: run_id, cell_key, host
-- reads: measurement, attempt
-- unit:  lengths in tokens per completed request
-- The lengths the client reports of its workload count before those computed
-- from its token totals.
CREATE OR REPLACE VIEW measured_cell AS
WITH m AS (
    SELECT run_id, cell_key, host,
           max(value) FILTER (WHERE metric = 'success_rate') AS success_rate,
           max(value) FILTER (WHERE metric = 'failed') AS failed,
           max(value) FILTER (WHERE metric = 'completed') AS completed,
           max(value) FILTER (WHERE metric = 'total_input_tokens') AS input,
           max(value) FILTER (WHERE metric = 'total_output_tokens') AS output
    FROM measurement GROUP BY run_id, cell_key, host
), a AS (
    SELECT run_id, cell_key, max(mean_input_len) AS mean_input_len, max(mean_output_len) AS mean_output_len
    FROM attempt WHERE status = 'done' GROUP BY run_id, cell_key
)
SELECT m.run_id, m.cell_key, m.host, count(*) OVER (PARTITION BY m.run_id, m.cell_key)::INTEGER AS hosts,
       m.success_rate, m.failed,
       coalesce(a.mean_input_len, m.input / nullif(m.completed, 0)) AS mean_input_len,
       coalesce(a.mean_output_len, m.output / nullif(m.completed, 0)) AS mean_output_len
FROM m
LEFT JOIN a ON a.run_id = m.run_id AND a.cell_key = m.cell_key;
COMMENT ON VIEW measured_cell IS 'Computes what table cell_result keeps: what must be known of a cell before it may be compared';
COMMENT ON COLUMN measured_cell.run_id IS 'run';
COMMENT ON COLUMN measured_cell.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN measured_cell.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN measured_cell.hosts IS 'nodes that measured this cell in this run';
COMMENT ON COLUMN measured_cell.success_rate IS 'completed / (completed + failed)';
COMMENT ON COLUMN measured_cell.failed IS 'failed requests';
COMMENT ON COLUMN measured_cell.mean_input_len IS 'mean input length, tokens; NULL if unknown';
COMMENT ON COLUMN measured_cell.mean_output_len IS 'mean output length, tokens; NULL if unknown';
