-- what_changed: what differs between two runs besides their results.
-- grain: field
-- reads: run, run_identity, image_digest, attempt, threshold
-- unit:  text; NULL where a side does not have the field
-- Facts of the run, the digests of its image, the resolved configuration key by
-- key, thresholds, and the command lines of the first cell, in which the run's own
-- id, a part of its paths, is no difference.
CREATE OR REPLACE MACRO what_changed(before_run, after_run) AS TABLE
WITH facts AS (
    SELECT r.run_id, unnest([
        {rank: 1, field: 'model', v: r.model}, {rank: 2, field: 'precision', v: r.precision}, {rank: 3, field: 'driver', v: r.driver},
        {rank: 4, field: 'gpu', v: i.gpu}, {rank: 5, field: 'gpu_seen', v: r.gpu_seen}, {rank: 6, field: 'image', v: r.image},
        {rank: 8, field: 'version', v: i.version}, {rank: 9, field: 'hosts', v: r.hosts}, {rank: 10, field: 'tp', v: r.tp::VARCHAR}, {rank: 11, field: 'pp', v: r.pp::VARCHAR},
        {rank: 12, field: 'dp', v: r.dp::VARCHAR}, {rank: 13, field: 'nnodes', v: r.nnodes::VARCHAR}, {rank: 14, field: 'simulated', v: r.simulated::VARCHAR},
        {rank: 15, field: 'profile', v: r.profile}, {rank: 16, field: 'tool_version', v: r.tool_version}, {rank: 17, field: 'enforce_thresholds', v: r.enforce::VARCHAR}], recursive := true)
    FROM run r JOIN run_identity i ON i.run_id = r.run_id WHERE r.run_id IN (before_run, after_run)
    UNION ALL
    SELECT run_id, 7, 'image_digest', string_agg(DISTINCT digest, ', ' ORDER BY digest) FROM image_digest WHERE run_id IN (before_run, after_run) GROUP BY run_id
    UNION ALL
    SELECT r.run_id, 30, 'config ' || substr(t.fullkey, 3), t.atom::VARCHAR
    FROM (SELECT run_id, config FROM run WHERE run_id IN (before_run, after_run) AND json_valid(config)) r, json_tree(r.config) t
    WHERE t.atom IS NOT NULL
    UNION ALL
    SELECT run_id, 50, 'threshold ' || target || ' ' || metric, any_value(kind || ' ' || coalesce(num_text(value), '') || coalesce(' ± ' || num_text(tolerance_pct) || ' %', '') ORDER BY ordinal)
    FROM threshold WHERE run_id IN (before_run, after_run) GROUP BY run_id, target, metric
    UNION ALL
    SELECT run_id, 20, 'server command', replace(min_by(server_argv, (cell_key, repeat)), run_id, '{run_id}') FROM attempt WHERE run_id IN (before_run, after_run) AND server_argv IS NOT NULL GROUP BY run_id
    UNION ALL
    SELECT run_id, 21, 'client command', replace(min_by(client_argv, (cell_key, repeat)), run_id, '{run_id}') FROM attempt WHERE run_id IN (before_run, after_run) AND client_argv IS NOT NULL GROUP BY run_id
)
SELECT field, max(v) FILTER (WHERE run_id = before_run) AS before, max(v) FILTER (WHERE run_id = after_run) AS after, min(rank) AS rank
FROM facts
GROUP BY field
HAVING before IS DISTINCT FROM after
ORDER BY rank, field;
COMMENT ON MACRO TABLE what_changed IS 'What differs between two runs besides their results: facts, image digests, configuration, thresholds, command lines; one row per field. before_run, after_run: run ids';
