-- drift: keys of each format that came later than it, are no longer there, or have values of more than one kind
WITH f AS (
    SELECT s.format, min(r.started_at) AS begins, max(r.started_at) AS ends FROM sample s JOIN run r ON r.run_id = s.run_id WHERE s.role = 'cell' GROUP BY s.format
), k AS (
    SELECT format, key, max(metric) AS metric, string_agg(kind, ', ' ORDER BY kind) FILTER (WHERE kind <> 'null') AS kinds,
           count(*) FILTER (WHERE kind <> 'null') AS n, sum(samples)::BIGINT AS samples, min(first_seen) AS first_seen, max(last_seen) AS last_seen
    FROM key_census GROUP BY format, key
)
SELECT k.format, k.key, k.metric,
       concat_ws(', ', CASE WHEN k.first_seen > f.begins THEN 'new since ' || strftime(k.first_seen, '%Y-%m-%d') END,
           CASE WHEN k.last_seen < f.ends THEN 'last seen ' || strftime(k.last_seen, '%Y-%m-%d') END, CASE WHEN k.n > 1 THEN 'of several kinds' END) AS drift,
       k.kinds, k.samples, k.first_seen, k.last_seen
FROM k JOIN f ON f.format = k.format
WHERE k.first_seen > f.begins OR k.last_seen < f.ends OR k.n > 1
ORDER BY k.format, k.first_seen, k.key;
