-- key_census: every key that result files of each format hold, known to us or not, with how often and since when
FROM key_census ORDER BY format, samples DESC, key, kind;
