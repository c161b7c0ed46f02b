NAMES = {}
