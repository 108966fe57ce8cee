"""What clients try: sequential processes that ask and are told, and the one table that judges errors."""
