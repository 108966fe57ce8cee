"""One replica of a partition, as leader (V3 §G), follower or idle; its ISR and high watermark.

`broker` and `node` import it; `controller` imports `eligible` alone.
"""
