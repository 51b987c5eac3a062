-- what_changed: what differs between two runs besides their results.
-- grain: field
-- reads: run, run_identity, image_digest, attempt, threshold, gpu_stat, expected_cell
-- unit:  text; NULL where a side does not have the field
-- Facts of the run, the digests of its image, the resolved configuration key by
-- key, thresholds, and the command lines of the first cell, in which the run's own
-- id, a part of its paths, is no difference. Of cells that both measured, what may
-- explain a number besides: their place on a server and whether it was warm, clocks
-- and power that differ by more than 5 %, and that GPUs were throttled in one alone.
-- What is not recorded of both is not compared.
CREATE OR REPLACE MACRO what_changed(before_run, after_run) AS TABLE
WITH place AS (
    SELECT run_id, cell_key,
           CASE WHEN bool_or(warm) THEN 'warm' ELSE 'cold' END || ' server, cell ' ||
               row_number() OVER (PARTITION BY run_id, min(server_session) ORDER BY min(started_at), cell_key) || ' on it' AS v
    FROM attempt WHERE run_id IN (before_run, after_run) AND status = 'done' AND server_session > 0 AND started_at IS NOT NULL
    GROUP BY run_id, cell_key
), gpu AS (
    SELECT t.run_id, t.cell_key, unnest([
        {rank: 41, what: 'GPU clock', x: avg(t.mean_gfx_mhz), v: num_text(round(avg(t.mean_gfx_mhz))) || ' MHz'},
        {rank: 42, what: 'GPU power', x: avg(t.mean_power_w), v: num_text(round(avg(t.mean_power_w))) || ' W'},
        {rank: 43, what: 'GPUs throttled', x: max(t.throttled_pct), v: num_text(round(max(t.throttled_pct), 1)) || ' % of the time'}], recursive := true)
    FROM (SELECT e.cell_key, s.* FROM gpu_stat s JOIN expected_cell e ON e.run_id = s.run_id AND e.cell_id = s.cell_id
          WHERE s.run_id IN (before_run, after_run) AND s.gpu IS NULL) t
    GROUP BY t.run_id, t.cell_key
), beside AS (
    SELECT p.run_id, 40 AS rank, 'cell ' || p.cell_key || ' place' AS field, p.v
    FROM place p SEMI JOIN place o ON o.cell_key = p.cell_key AND o.run_id <> p.run_id
    UNION ALL
    SELECT g.run_id, g.rank, 'cell ' || g.cell_key || ' ' || g.what, g.v
    FROM gpu g SEMI JOIN gpu o ON o.cell_key = g.cell_key AND o.rank = g.rank AND o.run_id <> g.run_id
        AND CASE g.rank WHEN 43 THEN (g.x > 0) <> (o.x > 0) ELSE greatest(abs(change_pct(g.x, o.x)), abs(change_pct(o.x, g.x))) > 5 END
), facts AS (
    SELECT run_id, rank, field, v FROM beside
    UNION ALL
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
COMMENT ON MACRO TABLE what_changed IS 'What differs between two runs besides their results: facts, image digests, configuration, thresholds, command lines, conditions of cells; one row per field. before_run, after_run: run ids';
